#!/usr/bin/env bash
# Does all of `make test` that is more than building, side by side on two cores; see --help.
set -euo pipefail
usage() {
	cat <<'TEXT'
usage: scripts/test.sh COMMAND…, for example scripts/test.sh go test -race -count=1

COMMAND is `go test` and its flags. The stories of scripts/e2e mostly wait, for outages and
leases, so two processes of them run beside the other tests, and no more: their callers ask all
the time, and a story that waits for a busy machine takes more of it. They start programs and ask them
over the network: -race would see none of these and take the cores that they need, so only
those that use the Go client have it. What only computes (simulations, which are ten times
slower under -race, models, lint, benchmarks run once) gets what the others leave of the
cores. Nor do the nemesis, ZooKeeper's store and SQLite, which is C turned into Go, have -race: it
takes their time threefold; what runs side by side in zkstore, and in sqlstore on MariaDB, has it. The tests of the stores
in $OTHERS follow the tests that are no stories. A test that fails beside others is run once
more, alone.
TEXT
}
case "${1:-}" in
-h | --help) usage; exit 0 ;;
"") usage >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
sequences='^Test(E2E|Directed)Sequence' outages='^TestDirected' leases='^Test(E2ELeaf|E2EUID|E2EConsole)' clients='^TestE2E(GoClient|ScrambledApp)$'
races='AtOnce|Concurrently|UnderLoad|Hosts|Silent|Holder|Replicas|Worlds|AnotherLife|Race|Close|Overtaken|LostTake'
plain=()
for word in "$@"; do
	[ "$word" = -race ] || plain+=("$word")
done

# part runs a command and keeps what it prints.
part() {
	local name=$1
	shift
	"$@" 2>&1 | tee "$logs/$name" || touch "$logs/$name.failed"
	echo "make test: $name ended after $SECONDS s"
}

# idle runs a command when nothing else wants the cores.
idle() {
	if chrt --idle 0 true 2>/dev/null; then chrt --idle 0 "$@"; else nice -n 19 "$@"; fi
}

computing() {
	local failed=0
	idle "${plain[@]}" ./model || failed=1
	idle "${plain[@]}" -run "^TestSimulation" ./service/queue ./service/worker ./service/segment ./service/uid || failed=1
	idle make --no-print-directory lint vulncheck bench-once || failed=1
	idle scripts/prove/prove.sh --quick || failed=1
	return $failed
}

"${plain[@]}" -run '^$' ./scripts/e2e # compiled once
# Three chains beside each other, each about as long as the others.
part stories "${plain[@]}" -skip "$sequences|$outages|$leases|$clients" ./scripts/e2e &
{
	part leases "${plain[@]}" -run "$leases" ./scripts/e2e
	part clients "$@" -run "$clients" ./scripts/e2e
	part sequences "${plain[@]}" -parallel 4 -run "$sequences" ./scripts/e2e
	part outages "${plain[@]}" -parallel 3 -run "$outages" -skip "$sequences" ./scripts/e2e
} &
{
	# shellcheck disable=SC2046 # a list of packages
	part others "$@" $(go list ./... "$(go list -m)/client/..." | grep -v '/scripts/e2e$\|/model$\|/scripts/nemesis$\|/sqlstore$\|/zkstore$')
	part races "$@" -run "$races" -skip SQLite ./repository/sqlstore ./repository/zkstore
	part slower "${plain[@]}" ./repository/sqlstore ./repository/zkstore ./scripts/nemesis
	[ -z "${OTHERS:-}" ] || part stores scripts/test-stores.sh --main "${OTHERS// /+}"
} &
part computing computing &
wait

status=0
for name in leases sequences outages stories clients others races slower; do
	command=("${plain[@]}")
	case $name in clients | others | races) command=("$@") ;; esac
	[ ! -e "$logs/$name.failed" ] || scripts/rerun-failed.sh "$logs/$name" "${command[@]}" || status=1
done
for name in computing stores; do
	[ ! -e "$logs/$name.failed" ] || { echo "make test: $name FAILED, see above" && status=1; }
done
exit $status
