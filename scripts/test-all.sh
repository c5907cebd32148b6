#!/usr/bin/env bash
# Does what `make test-all` does after `make test`; see --help.
set -euo pipefail
usage() {
	cat <<'TEXT'
usage: scripts/test-all.sh [PART…]

Runs what is too long for `make test`, about an hour on two cores, and prints a table at its end,
with what was skipped because this machine lacks something:

  lint      vet, lint, known vulnerabilities
  prove     the models of the protocols, with smaller bounds than make prove
  packages  every package with its deep tests: all mutants, large worlds, servers that fail
  race      every package, but the stories, with -race
  stories   all stories: console, upgrade, outages, and the programs of the pages
  java      the Java client and its starter beside their frameworks
  deploy    the files of deploy/
  faults    each fault once on each topology
  stores    contracts, stories and faults on MySQL 9.7 and Valkey 9.1
  bench     each benchmark once

PART names some of them.
TEXT
}
case "${1:-}" in
-h | --help) usage; exit 0 ;;
-*) usage >&2; exit 2 ;;
esac
[ $# -gt 0 ] || set -- lint prove packages race stories java deploy faults stores bench
cd "$(dirname "$0")/.."
logs=$(mktemp -d)
export DEEP=1
test=(go test -count=1 -timeout 60m)
# shellcheck disable=SC2207 # package names have no spaces
all=($(go list ./... "$(go list -m)/client/..." | grep -vE '/scripts/(stories|faults|deploytest)$'))

run() {
	case $1 in
	lint) make --no-print-directory lint vulncheck ;;
	prove) scripts/prove/prove.sh --quick ;;
	packages) "${test[@]}" -v "${all[@]}" ;;
	race) DEEP='' "${test[@]}" -race "${all[@]}" ;;
	stories) scripts/test-clients.sh '^Test([^J]|J[^a])' ;; # those of Java are a part of their own
	java) make --no-print-directory test-java ;;
	deploy) make --no-print-directory test-deploy ;;
	faults) "${test[@]}" -v ./scripts/faults ;;
	stores) DEEP='' scripts/test-stores.sh mysql-9.7+valkey-9.1 ;;
	bench) make --no-print-directory bench-once ;;
	*) usage && exit 2 ;;
	esac
}

for name in "$@"; do
	begun=$SECONDS verdict=ok
	run "$name" >"$logs/$name" 2>&1 || verdict=FAILED
	printf '%-9s %6s  %4d s\n' "$name" "$verdict" $((SECONDS - begun)) | tee -a "$logs/table"
	[ $verdict = ok ] || grep -E '^ *--- FAIL|^FAIL|^panic' "$logs/$name" || tail -n 30 "$logs/$name"
done

echo
echo "make test-all: $SECONDS s, of which"
cat "$logs/table"
echo "skipped, as this machine lacks something:"
# The reason of a test is the last line it wrote before the one that says it is skipped.
cat "$logs"/* | awk '/^=== (RUN|CONT|NAME) / {name = $3}
	/^ +[a-z0-9_]+\.go:[0-9]+: / {line = $0; sub(/^ *[^ ]+ /, "", line); reason[name] = line}
	/^ *--- SKIP: / {print "  " $3 ": " reason[$3]}
	/^(NOT RUN|NOT INSTALLED|!!! NOT CHECKED)/ {print "  " $0}' | sort -u
if grep -q FAILED "$logs/table"; then
	echo "the whole output of each part is in $logs"
	exit 1
fi
rm -rf "$logs"
