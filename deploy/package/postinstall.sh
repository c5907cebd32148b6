#!/bin/sh
# After the package is installed or upgraded. A service that runs continues with the old
# program until it is restarted: run `shardid migrate` first, as the release notes say.
set -e
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers shardid.conf
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
