#!/bin/sh
# Gives the module another path; see --help.
set -eu

usage() {
	cat <<'TEXT'
usage: scripts/rename-module.sh PATH        (or: make rename MODULE=PATH)

Gives the Go module and those below client/ another path, such as example.com/ids/shardid: in
each go.mod, in all imports, docs/clients.md and docs/modes.md.
`go get PATH/client` works once the repository can be fetched at that path, and
`go get PATH/client/gormid` once it has the tags client/v0.0.0 and client/gormid/v0.0.0.
Nothing else changes.
TEXT
}

fail() {
	echo "rename: $*" >&2
	exit 2
}

[ "${1-}" = --help ] && usage && exit
[ $# = 1 ] && [ -n "$1" ] || fail "name the path: make rename MODULE=example.com/ids/shardid"
new=$1
cd "$(dirname "$0")/.."
old=$(sed -n 's/^module //p' go.mod)
[ -n "$old" ] || fail "go.mod has no module path"
[ "$new" != "$old" ] || fail "the module's path is $old already"

# A path that can be fetched begins with a host name.
case ${new%%/*} in
*.*) ;;
*) fail "$new does not begin with a host name: write it like example.com/ids/shardid" ;;
esac
case $new in
*[!a-zA-Z0-9._~/-]*) fail "$new has a character that a module path may not have" ;;
esac
trial=$(mktemp -d)
trap 'rm -rf "$trial"' EXIT
cp go.mod "$trial/go.mod"
(cd "$trial" && go mod edit -module="$new" 2>&1) >"$trial/said" || fail "$new is no module path: $(cat "$trial/said")"

# Paths in Go begin a string. Dots of the old path stand for themselves.
pattern=$(printf '%s' "$old" | sed 's/\./\\./g')
find . -name '.?*' -type d -prune -o -name '*.go' -type f -exec grep -l "\"$old/" {} + >"$trial/files"
while IFS= read -r file; do
	sed "s#\"$pattern/#\"$new/#g" "$file" >"$trial/new"
	cat "$trial/new" >"$file" # keeps its mode
	gofmt -w "$file"          # imports are sorted
done <"$trial/files"
for file in docs/clients.md docs/modes.md; do
	sed -e "s#\"$pattern/#\"$new/#g" -e "s#\`$pattern/#\`$new/#g" -e "s#\(-require\|-replace\)=$pattern/#\1=$new/#g" "$file" >"$trial/new"
	cat "$trial/new" >"$file"
done
for file in go.mod client/go.mod client/gormid/go.mod scripts/compare/peers/go.mod; do # the path begins a word
	sed "s#^\(module \|replace \|$(printf '\t')\)$pattern\(/\| \|\$\)#\1$new\2#" "$file" >"$trial/new"
	cat "$trial/new" >"$file"
done
echo "rename: $old is $new now, in $(wc -l <"$trial/files" | tr -d ' ') files; try: go build ./..."
