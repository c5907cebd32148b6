#!/bin/sh
# Before the package is removed, not before it is upgraded. /etc/shardid and the data stay.
set -e
if [ -d /run/systemd/system ] && { [ "$1" = remove ] || [ "$1" = 0 ]; }; then
	systemctl disable --now shardid.service
fi
