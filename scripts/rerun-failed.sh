#!/bin/sh
# Runs the failed tests of a log of `go test` once more, each alone; see --help.
set -eu

usage() {
	cat <<'TEXT'
usage: scripts/rerun-failed.sh LOG COMMAND…

LOG is what `go test` printed, COMMAND the `go test` and its flags, without packages:

  scripts/rerun-failed.sh /tmp/log go test -race -count=1

Tests beside many others on a busy machine miss their deadlines. A failed test is
therefore run again with nothing beside it, and named when it passes then. Nothing is
run again, and the status is 1, when the log tells of an ID that came twice, a data race
or a panic, when a package failed without a failed test, or when more than 5 tests did.
TEXT
}

case "${1:-}" in
-h | --help) usage; exit 0 ;;
esac
if [ $# -lt 2 ]; then
	usage >&2
	exit 2
fi
log=$1
shift
if grep -vE ' 0 (of them|times) twice|^ *(---|===) ' "$log" | grep -E 'twice|issued before|DATA RACE|^panic:|build failed'; then
	echo "make test: not run again, see above"
	exit 1
fi
failed=$(awk '/^--- FAIL: /{names = names " " $3} /^FAIL\t/{if (names == "") names = " -"; n = split(names, name, " "); for (i = 1; i <= n; i++) print $2, name[i]; names = ""}' "$log")
if [ -z "$failed" ] || [ "$(echo "$failed" | wc -l)" -gt 5 ] || echo "$failed" | grep -q ' -$'; then
	echo "make test: not run again: ${failed:-a failure of no test}"
	exit 1
fi
status=0
echo "$failed" | {
	while read -r package name; do
		echo "make test: $name of $package failed and runs again, alone"
		if "$@" -run "^$name\$" "$package"; then
			echo "make test: $name of $package PASSED ALONE" >>"$log"
		else
			status=1
		fi
	done
	exit $status
}
grep 'PASSED ALONE$' "$log"
