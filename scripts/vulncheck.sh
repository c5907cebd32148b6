#!/usr/bin/env bash
# Looks for known vulnerabilities in what shardid calls. Usage: vulncheck.sh GOVULNCHECK
#
# A finding fails. The data cannot be had on a machine without a way to it: that is
# said and passes, as it says nothing about shardid.
set -uo pipefail
cd "$(dirname "$0")/.."

output=$("$1" ./... 2>&1)
status=$?
if [ $status -eq 1 ] && grep -q '^govulncheck: fetching vulnerabilities: ' <<<"$output"; then
  echo "vulncheck: skipped, the vulnerability data cannot be reached: ${output##*: }"
  exit 0
fi
echo "$output"
exit $status
