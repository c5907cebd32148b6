#!/usr/bin/env bash
# Checks the models of this folder exhaustively with spin; see --help.
set -euo pipefail
cd "$(dirname "$0")"

usage() {
	cat <<'TEXT'
usage: scripts/prove/prove.sh [--help | --quick] [MODEL…]

Checks with spin that the models refill, witness, lease, claim, holder, sequence and region keep their
promise within their bounds, and that each rule that is left out (NO_…) and each exception that is
let in (WITH_…) yields a counterexample. A rule that another one makes spare "holds".

  --quick   smaller bounds, without spare rules and second configurations: 3 minutes on
            two cores that have nothing else to do; else 15
  MODEL     only these

Prints a line for each run: the model, its flags, what was found, states, seconds. Two
run at a time, each in at most 6 GB. Ends with status 1 when one is not as expected, or
when a search was cut short. Needs spin 6.5 and gcc; on Debian and Ubuntu they are
installed with apt-get, as root or with a sudo that asks for no password.
TEXT
}

quick='' models=()
for word in "$@"; do
	case $word in
	-h | --help)
		usage
		exit 0
		;;
	--quick) quick=yes ;;
	refill | witness | lease | claim | holder | sequence | region) models+=("$word") ;;
	*)
		usage >&2
		exit 2
		;;
	esac
done
[ ${#models[@]} -gt 0 ] || models=(refill witness lease claim holder sequence region)

# runs prints a line for each run: what is expected, the model, its flags. Bounds that
# suffice for a counterexample are those of --quick; the longest runs come first.
runs() {
	if [ "$quick" ]; then
		echo "holds witness -DN=2 -DFAILS=1"
		echo "holds lease -DT=2 -DTERMS=3"
		echo "holds refill -DS=2 -DEVENTS=2"
		echo "holds claim -DT=2 -DTERMS=3"
		echo "holds holder -DT=4"
		echo "holds sequence -DN=2 -DTICKS=1 -DFAILS=1"
		echo "holds region -DN=1"
	else
		echo "holds region"
		echo "holds witness -DN=2 -DNAMES=1"
		echo "holds lease -DT=3 -DTERMS=3"
		echo "holds refill -DS=3 -DEVENTS=2"
		echo "holds lease -DT=3 -DTERMS=4 -DFILES=0"
		echo "holds refill -DS=2 -DEVENTS=3"
		echo "holds witness -DN=3 -DFAILS=1"
		echo "holds holder -DT=6"
		echo "holds sequence -DTICKS=1 -DFLUSHES=1 -DLATE=1"
		echo "holds sequence -DN=2 -DTICKS=1 -DKEYS=2"
		echo "holds sequence -DTICKS=1 -DSWAPS=2"
		echo "holds sequence -DTICKS=1 -DFAILS=1"
		echo "holds sequence -DTICKS=1 -DDELETES=1 -DFLUSHES=1"
		echo "holds sequence -DN=2 -DTICKS=1 -DDELETES=1 -DFAILS=1"
		echo "holds sequence -DN=6 -DS=2"
		echo "holds sequence -DN=2 -DTICKS=1 -DFLUSHES=1 -DRESTARTS=1"
		echo "holds witness -DN=2 -DNAMES=1 -DNO_FORGET" # spare: it is to be said anew on each server, and given up first
		echo "holds lease -DT=2 -DTERMS=3 -DFILES=1"
		echo "holds claim"
		echo "holds claim -DFILES=1"
		echo "holds claim -DFILES=0"
		echo "holds claim -DT=2 -DNO_ENDED" # spare: it has a misconfigured instance wait, in place of the others
		for flag in LIFE ONCE W FLOOR; do # spare: each number is in one push
			echo "holds refill -DS=2 -DEVENTS=2 -DNO_$flag"
		done
	fi
	echo "holds refill -DS=3 -DBACK"
	for flag in HISTORY POP_CHECK COMMIT ONCE\ -DNO_LIFE ONCE\ -DNO_W; do
		echo "counterexample refill -DS=2 -DEVENTS=2 -DNO_$flag"
	done
	echo "counterexample refill -DS=3 -DBACK -DNO_W"
	for flag in BOTH RESTORE SAME_HISTORY ACTIVE; do
		echo "counterexample refill -DS=2 -DEVENTS=2 -DWITH_$flag"
	done
	for flag in AGE MARK MARK_FIRST WITNESS LOCK HOLD EXPIRY SLACK ANEW NEW_NAME GIVE_UP_FIRST COMMIT_FIRST MEMBERS SEEN JUMP LIFE BIRTH; do
		echo "counterexample witness -DN=2 -DNO_$flag"
	done
	echo "counterexample witness -DN=2 -DFAILS=1 -DNO_TOMBSTONE"
	for flag in SAME SERVER; do
		echo "deep witness -DN=2 -DNAMES=1 -DNO_$flag"
	done
	for flag in TWO_DATABASES TWO_AT_ONE_PLACE PLACE_RETURNS NOBODY_LEFT FAILBACK REVERTED_REPLICA REVERTED_REDIS OTHER_PROGRAM DELETED_ROW; do
		echo "counterexample witness -DN=2 -DWITH_$flag"
	done
	for flag in FENCE RESERVED EXPIRES FILE WAIT FROM_NOW OFFSET LAPSED HELD TOKEN DISOWN; do
		echo "counterexample lease -DT=3 -DNO_$flag"
	done
	for flag in UNREACHABLE COPIED_FOLDER FILE_BACK REGISTRY_CLOCK; do
		echo "counterexample lease -DT=3 -DWITH_$flag"
	done
	for flag in NO_STORED NO_BOUND NO_FILE_BOUND NO_CLOSING NO_ABOVE WITH_FILE_BACK; do
		echo "counterexample claim -DT=2 -DTERMS=3 -D$flag"
	done
	for flag in NO_FENCE NO_WAIT NO_SLACK NO_MARGIN NO_SECRET NO_ENDED NO_STOP WITH_STEAL WITH_CLOCKS_APART; do
		echo "counterexample holder -DT=5 -DLEASES=2 -DFAILS=1 -D$flag"
	done
	echo "holds sequence"
	echo "holds sequence -DN=4 -DTICKS=0 -DRAISES=1"
	echo "holds sequence -DN=4 -DTICKS=1 -DNO_FENCE -DUNIQUE_ONLY" # order needs time, and the promise of one number does not
	for flag in FENCE WAIT NUMBER; do
		echo "counterexample sequence -DTICKS=1 -DNO_$flag"
	done
	for flag in CHANGES LACKS; do
		echo "deep sequence -DN=2 -DTICKS=1 -DFAILS=1 -DNO_$flag"
	done
	echo "counterexample sequence -DN=2 -DTICKS=1 -DFLUSHES=1 -DLATE=1 -DNO_LIFE"
	echo "counterexample sequence -DN=4 -DS=2 -DTICKS=1 -DNO_TERM"
	echo "counterexample sequence -DTICKS=1 -DSWAPS=2 -DNO_SECTION_LIFE"
	echo "counterexample sequence -DTICKS=0 -DRAISES=1 -DNO_BASE"
	echo "counterexample sequence -DTICKS=0 -DWITH_FIELD_DELETED"
	echo "counterexample sequence -DN=4 -DS=2 -DTICKS=1 -DDELETES=1 -DNO_END"
	echo "counterexample sequence -DN=4 -DS=2 -DTICKS=0 -DDELETES=1 -DNO_REST"
	for flag in NO_READ NO_EMPTY NO_LOCK WITH_SAME_REGION WITH_TYPO_AND_RESTORE; do
		echo "deep region -DN=1 -D$flag"
	done
}

# as_root runs a command as root, without ever asking for a password.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

install() {
	if command -v spin >/dev/null && command -v gcc >/dev/null; then return 0; fi
	if ! command -v apt-get >/dev/null || { [ "$(id -u)" -ne 0 ] && ! sudo -n true 2>/dev/null; }; then
		echo "Please install spin 6.5 and gcc: sudo apt-get install --no-install-recommends spin gcc libc6-dev" >&2
		return 1
	fi
	local apt=(as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
	"${apt[@]}" update
	"${apt[@]}" install -y --no-install-recommends spin gcc libc6-dev
}

# check runs one line of runs and writes its result: breadth first finds the shortest
# counterexample, mostly before an optimiser is done; depth first, "deep" or to see everything,
# needs less memory, and finds a long one sooner.
check() {
	local expected=$1 model=$2 dir=$3
	shift 3
	local how=(-O2) began=$SECONDS
	case $expected in
	counterexample) how=(-O0 -DBFS) ;;
	deep) how=(-O0) expected=counterexample ;;
	esac
	mkdir "$dir"
	cp "$model.pml" "$dir/model.pml"
	(
		cd "$dir"
		spin -a "$@" model.pml &&
			gcc -w "${how[@]}" -DSAFETY -DNOFAIR -DMEMLIM=6000 -o pan pan.c &&
			exec ./pan -m100000
	) >"$dir/out" 2>&1 || true
	local found="no answer" states
	if grep -q 'assertion violated' "$dir/out"; then
		found=counterexample
	elif grep -Eq 'not completed|depth too small|MEMLIM|out of memory|resource' "$dir/out"; then
		found="cut short"
	elif grep -q 'errors: 0$' "$dir/out" && grep -q '^Full statespace search' "$dir/out"; then
		found=holds
	fi
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$dir/out" | head -n 1)
	local mark=ok
	if [ "$found" != "$expected" ]; then
		mark="FAILED, expected $expected"
		touch "$dir.failed"
	fi
	printf '%-8s %-42s %-14s %12s states %4d s  %s\n' "$model" "${*//-D/}" "$found" "${states:-?}" $((SECONDS - began)) "$mark"
	[ "$mark" = ok ] || tail -n 15 "$dir/out" >&2
	rm -rf "$dir"
}

install
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'trap - TERM; kill -TERM 0; exit 130' INT TERM
number=0
while read -r expected model flags; do
	[[ " ${models[*]} " = *" $model "* ]] || continue
	if [ "$(jobs -rp | wc -l)" -ge 2 ]; then wait -n; fi
	number=$((number + 1))
	# shellcheck disable=SC2086 # a list of words
	check "$expected" "$model" "$work/$number" $flags &
done < <(runs)
wait
failed=$(find "$work" -name '*.failed' | wc -l)
echo "$number runs in $SECONDS s, $failed not as expected"
[ "$failed" -eq 0 ]
