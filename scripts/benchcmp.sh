#!/bin/sh
# Compares Go benchmarks of two commits; see --help.
set -eu

# Of golang.org/x/perf, which has no releases.
benchstat=golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

usage() {
	cat <<'TEXT'
usage: scripts/benchcmp.sh OLD NEW [PATTERN [PACKAGE…]]

Runs the benchmarks of two commits in turn and shows the differences with
benchstat. NEW may be "." for the working tree as it is.

  PATTERN   of go test -bench; default .
  PACKAGE   default all; those without a matching benchmark cost only their build

  COUNT=6        rounds; benchstat wants six to be sure of a difference
  BENCHTIME=1s   of each benchmark in each round
  CPU=           values of GOMAXPROCS, such as 1,2

Each commit is checked out into a worktree in a temporary folder, which is removed
in the end, however that comes. Benchmarks that need a server are left out (-short).
TEXT
}

case "${1:-}" in
--help | -h) usage; exit 0 ;;
esac
if [ $# -lt 2 ]; then
	usage >&2
	exit 2
fi
old=$1 new=$2 pattern=${3:-.}
if [ $# -gt 3 ]; then shift 3; else set -- ./... "$(go -C "$(dirname "$0")" list -m)/client/..."; fi

cd "$(dirname "$0")/.."
repository=$PWD
folder=$(mktemp -d)

clean_up() {
	for side in old new; do
		if [ -e "$folder/$side/.git" ]; then
			git worktree remove --force "$folder/$side" >/dev/null 2>&1 || true
		fi
	done
	rm -rf "$folder"
	git worktree prune
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# prepare COMMIT SIDE puts the sources of a commit into $folder/SIDE.
prepare() {
	if [ "$1" = . ]; then
		ln -s "$repository" "$folder/$2"
	else
		git worktree add --quiet --detach "$folder/$2" "$1"
	fi
}

# measure SIDE PACKAGE… appends one round to $folder/SIDE.txt.
measure() {
	side=$1
	shift
	(cd -P "$folder/$side" &&
		go test -short -run '^$' -bench "$pattern" -benchtime "${BENCHTIME:-1s}" ${CPU:+-cpu "$CPU"} "$@") >>"$folder/$side.txt" || {
		tail -n 20 "$folder/$side.txt" >&2
		exit 1
	}
}

prepare "$old" old
prepare "$new" new
rounds=${COUNT:-6}
for round in $(seq "$rounds"); do
	echo "round $round of $rounds" >&2
	# The second finds a warmer machine, so they take turns in that too.
	if [ $((round % 2)) = 1 ]; then
		measure old "$@"
		measure new "$@"
	else
		measure new "$@"
		measure old "$@"
	fi
	if ! grep -q '^Benchmark' "$folder/old.txt" "$folder/new.txt"; then
		echo "no benchmark matches $pattern" >&2
		exit 1
	fi
done
go run "$benchstat" "$old=$folder/old.txt" "$new=$folder/new.txt"
