#!/usr/bin/env bash
# Runs all tests, as make test does: COMMAND is `go test` and its flags. The stories of
# scripts/e2e mostly wait, for outages and leases, so they run in three processes beside
# the other tests. What fails beside them is run once more, alone (rerun-failed.sh).
set -euo pipefail
if [ $# -eq 0 ]; then
	echo "usage: scripts/test.sh COMMAND…, for example scripts/test.sh go test -race -count=1" >&2
	exit 2
fi
cd "$(dirname "$0")/.."
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
outages='^TestDirected' leases='^Test(E2ELeaf|E2EUID|E2EConsole)'

"$@" -run '^$' ./scripts/e2e # compiled once
parts=()
part() {
	local name=$1
	shift
	("$@" 2>&1 | tee "$logs/$name" || touch "$logs/$name.failed") &
	parts+=($!)
}
part outages "$@" -run "$outages" ./scripts/e2e
part leases "$@" -run "$leases" ./scripts/e2e
part stories "$@" -skip "$outages|$leases" ./scripts/e2e
# shellcheck disable=SC2046 # a list of packages
part others "$@" $(go list ./... | grep -v '/scripts/e2e$')
wait "${parts[@]}"
for failed in "$logs"/*.failed; do
	if [ -e "$failed" ]; then
		scripts/rerun-failed.sh "${failed%.failed}" "$@"
	fi
done
