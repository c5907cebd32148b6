#!/usr/bin/env bash
# Does what `make test` does; see --help.
set -euo pipefail
usage() {
	cat <<'TEXT'
usage: scripts/test.sh

Runs everything that decides whether a change may land, in three steps:

  1  the packages that need no server, those whose goroutines meet with -race, and a thousand
     worlds of each simulation, while the servers of the other tests are being installed
  2  the stories (scripts/stories), which mostly wait, and beside them the packages that use
     MariaDB, Redis, ZooKeeper and SQLite, and three of scripts/mutants
  3  eight faults under load (scripts/faults), by a seed that is printed

Nothing is run twice. What takes long or needs what few machines have says check.Deep and is
skipped: `make test-all` runs it. The last lines tell where the time went.
TEXT
}
case "${1:-}" in
-h | --help) usage; exit 0 ;;
?*) usage >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
trap 'kill 0' INT # what runs in the background does not hear Ctrl-C

test=(go test -count=1 -timeout 20m)
module=$(go list -m)
# The packages whose goroutines share memory; stores, commands and stories are other processes.
shared=$(go list ./service/{background,clockid,issuer,queue,segment,sequence,uid,worker} ./repository/memstore "$module/client/...")
mapfile -t races <<<"$shared"
# The simulations among them are slow with -race: there they run few worlds.
worlds=(./service/{queue,segment,sequence,uid,worker})

# part runs a command, keeps what it prints and says how long it took.
part() {
	local name=$1 begun=$SECONDS verdict=ok
	shift
	"$@" >"$logs/$name" 2>&1 || { verdict=FAILED && touch "$logs/failed"; }
	printf '%-10s %6s  %4d s\n' "$name" "$verdict" $((SECONDS - begun)) | tee -a "$logs/table"
	[ "$verdict" = ok ] || grep -vE '^(ok|\?)[[:space:]]|^=== |^ *--- (PASS|SKIP)' "$logs/$name" || true
}

# packages prints the packages whose tests start servers, if only by those of other packages, or the rest.
packages() {
	go list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... "$module/client/..." |
		awk -v servers="$1" '/\/scripts\/(stories|faults) / {next}
			(/shardid\/scripts\/(testserver|rig|mutants)/ ? "yes" : "no") == servers {print $1}' |
		grep -vxFf <(printf '%s\n' "${races[@]}")
}

part install scripts/install-test-servers.sh &
# shellcheck disable=SC2046 # a list of packages
part packages "${test[@]}" -p 4 $(packages no)
part worlds "${test[@]}" -vet=off -p 1 -run '^TestSimulation' "${worlds[@]}"
part race "${test[@]}" -p 4 -race "${races[@]}"
wait
part stories "${test[@]}" -parallel 4 ./scripts/stories &
# shellcheck disable=SC2046
part stores "${test[@]}" -p 3 $(packages yes)
wait
part faults "${test[@]}" -v -run '^TestFaults$' ./scripts/faults
grep -hE '^TestFaults: seed|round ' "$logs/faults" || true

echo
echo "make test: $SECONDS s, of which"
cat "$logs/table"
echo "the slowest packages:"
cat "$logs"/{packages,worlds,race,stores,stories} | awk '$1 == "ok" {print $3, $2}' | sort -rn | head -n 8
[ ! -e "$logs/failed" ]
