#!/usr/bin/env bash
# Runs all tests, as make test does: COMMAND is `go test` and its flags. The stories of
# scripts/e2e mostly wait, for outages and leases, so they run in three processes beside
# the other tests. They start programs and ask them over the network: -race would see
# none of these and take the cores that they need, so only those that use the Go client
# have it. -race makes simulations ten times slower, so all
# of their worlds and mutants run without it. What fails beside other tests is run once more, alone (rerun-failed.sh).
set -euo pipefail
if [ $# -eq 0 ]; then
	echo "usage: scripts/test.sh COMMAND…, for example scripts/test.sh go test -race -count=1" >&2
	exit 2
fi
cd "$(dirname "$0")/.."
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
outages='^TestDirected' leases='^Test(E2ELeaf|E2EUID|E2EConsole)' clients='^TestE2E(GoClient|ScrambledApp)$'
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
part outages "${plain[@]}" -parallel 3 -run "$outages" ./scripts/e2e
part leases "${plain[@]}" -run "$leases" ./scripts/e2e
part stories "${plain[@]}" -skip "$outages|$leases|$clients" ./scripts/e2e
part clients "$@" -run "$clients" ./scripts/e2e
part simulations nice "${plain[@]}" ./model # they only compute
part worlds nice "${plain[@]}" -run "^TestSimulation" ./service/queue ./service/worker ./service/segment ./service/uid
# shellcheck disable=SC2046 # a list of packages
part others "$@" $(go list ./... "$(go list -m)/client/..." | grep -v '/scripts/e2e$\|/model$')
wait "${parts[@]}"
for name in outages leases stories simulations worlds; do
	[ ! -e "$logs/$name.failed" ] || scripts/rerun-failed.sh "$logs/$name" "${plain[@]}"
done
for name in clients others; do
	[ ! -e "$logs/$name.failed" ] || scripts/rerun-failed.sh "$logs/$name" "$@"
done
