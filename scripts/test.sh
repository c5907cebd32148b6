#!/usr/bin/env bash
# Runs all tests, as make test does: COMMAND is `go test` and its flags. The stories of
# scripts/e2e mostly wait, for outages and leases, so they run in three processes beside
# the other tests. They and the nemesis start programs and ask them: -race would see none
# of these and take the cores that they need. What fails beside other tests is run once
# more, alone (rerun-failed.sh).
set -euo pipefail
if [ $# -eq 0 ]; then
	echo "usage: scripts/test.sh COMMAND…, for example scripts/test.sh go test -race -count=1" >&2
	exit 2
fi
cd "$(dirname "$0")/.."
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
outages='^TestDirected' leases='^Test(E2ELeaf|E2EUID|E2EConsole|Nemesis|Ledger)'
plain=()
for word in "$@"; do
	[ "$word" = -race ] || plain+=("$word")
done

"${plain[@]}" -run '^$' ./scripts/e2e # compiled once
parts=()
part() {
	local name=$1
	shift
	{
		"$@" 2>&1 | tee "$logs/$name" || touch "$logs/$name.failed"
		echo "make test: $name took $SECONDS s"
	} &
	parts+=($!)
}
part outages "${plain[@]}" -run "$outages" ./scripts/e2e
part leases "${plain[@]}" -p 1 -run "$leases" ./scripts/e2e ./scripts/nemesis
part stories "${plain[@]}" -skip "$outages|$leases" ./scripts/e2e
# shellcheck disable=SC2046 # a list of packages
part others "$@" $(go list ./... | grep -vE '/scripts/(e2e|nemesis)$')
wait "${parts[@]}"
for failed in "$logs"/*.failed; do
	case $failed in
	*/others.failed) scripts/rerun-failed.sh "${failed%.failed}" "$@" ;;
	*.failed) [ ! -e "$failed" ] || scripts/rerun-failed.sh "${failed%.failed}" "${plain[@]}" ;;
	esac
done
