#!/bin/sh
# Runs the tests on other stores than the installed ones; see --help.
set -eu

usage() {
	cat <<'TEXT'
usage: scripts/test-stores.sh [DB+KV…]

Runs the tests that use stores on each combination of servers and prints one table.
DB is mysql-9.7, mariadb-10.11 or mariadb-11.8, KV is redis-7.0, redis-8.0 or
valkey-9.1; without any, these three:

  mariadb-10.11+redis-7.0   Debian 12
  mariadb-11.8+redis-8.0    Debian 13
  mysql-9.7+valkey-9.1      Debian unstable

Each server is in one of them. Others can be named, and find little more: shardid never
has the database and Redis talk to each other, so what one of them does differently
shows beside any of the others.

  contracts   the packages of repository and service that start a database or a Redis
  stories     scripts/stories: shardid itself on the stores
  faults      eight faults by a seed, three times
  group       each fault once on a group of three, with MySQL

DEEP=1 in the environment adds the deep contracts and stories. Each fault on each topology takes an hour on a pair:
DEEP=1 DB=mysql-9.7 KV=valkey-9.1 go test -timeout 2h ./scripts/faults. A server that is missing is
fetched (scripts/fetch-test-server.sh); one that cannot be had is named in the last
lines, and the installed one stands in for it, so that the other half of the
combination is tested; without both it is not run. The status is 1 when a test failed, and 0 otherwise.
TEXT
}

all='mariadb-10.11+redis-7.0 mariadb-11.8+redis-8.0 mysql-9.7+valkey-9.1'

case "${1:-}" in
-h | --help) usage; exit 0 ;;
-*) usage >&2; exit 2 ;;
esac
if [ $# -eq 0 ]; then
	# shellcheck disable=SC2086 # a list of words
	set -- $all
fi

cd "$(dirname "$0")/.."
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
trap 'stop $$; exit 130' INT
trap 'stop $$; exit 143' TERM HUP
lacking=

# Those whose tests import testserver; zkstore needs ZooKeeper alone.
packages=$(go list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./repository/... ./service/... |
	awk '/shardid\/scripts\/testserver/ && !/zkstore / {print $1}')

# stop ends all that the process $1 started, its servers before itself.
stop() {
	for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
		(stop "$child")
		kill "$child" 2>/dev/null || true
	done
}

# available prints the server's name, or nothing when it cannot be had: what is
# installed is then used.
available() {
	if scripts/fetch-test-server.sh "$1" >"$logs/fetch" 2>&1; then
		echo "$1"
	else
		sed 's/^test servers: //' "$logs/fetch" | tail -n 1 >"$logs/lacking-$1"
	fi
}

# part runs one part of a combination and leaves its cell of the table.
part() {
	name=$1
	shift
	begun=$(date +%s)
	if DB=$db KV=$kv go test -count=1 -timeout 60m "$@" >"$logs/$name" 2>&1; then
		verdict=ok
	else
		verdict=FAILED
		echo "stores: $name failed on ${db:-the installed database} with ${kv:-the installed Redis}:"
		grep -vE '^(ok|\?)[[:space:]]' "$logs/$name" | tail -n 200
	fi
	echo "$verdict $(($(date +%s) - begun)) s" >"$logs/cell-$name"
	echo "stores: ${db:-installed}+${kv:-installed}: $name: $(cat "$logs/cell-$name")"
}

for combination in "$@"; do
	db=$(available "${combination%+*}") kv=$(available "${combination#*+}")
	if [ -z "$db$kv" ]; then
		printf '%-15s  %-12s  not run\n' "${combination%+*}" "${combination#*+}" >>"$logs/table"
		continue
	fi
	# The contracts and the stories mostly wait; the faults need the machine.
	# shellcheck disable=SC2086 # a list of words
	part contracts -p 3 $packages &
	part stories -parallel 4 ./scripts/stories &
	wait
	part faults -run '^TestFaults$' -count 3 ./scripts/faults
	(DEEP=1 && export DEEP && part group -run '^TestEachFault$/^group$' ./scripts/faults)
	{
		printf '%-15s  %-12s' "${db:-installed}" "${kv:-installed}"
		for cell in contracts stories faults group; do printf '  %-14s' "$(cat "$logs/cell-$cell")"; done
		echo
	} >>"$logs/table"
done

echo
printf '%-15s  %-12s  %-14s  %-14s  %-14s  %s\n' database key-value contracts stories faults group
cat "$logs/table"
for file in "$logs"/lacking-*; do
	if [ -e "$file" ]; then
		lacking=yes
		echo "NOT RUN: $(cat "$file")"
	fi
done
if [ -z "$lacking" ]; then echo "every server of these combinations was there"; fi
if grep -q FAILED "$logs/table"; then exit 1; fi
