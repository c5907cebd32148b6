#!/usr/bin/env bash
# Builds a release twice and compares the sums; installs the deb of this machine, takes an
# ID from it as its user, and removes it; rehearses to publish the last commit. Needs root,
# Maven and a Debian without shardid.
set -euo pipefail
cd "$(dirname "$0")/.."

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}
fail() {
	echo "test-release: FAILED: $*" >&2
	exit 1
}

if command -v shardid >/dev/null; then fail "shardid is installed here: this test would replace it"; fi
work=$(mktemp -d)
server=
clean() {
	if [ -n "$server" ]; then as_root kill "$server" 2>/dev/null || true; fi
	if dpkg -s shardid >/dev/null 2>&1; then as_root dpkg --purge shardid >/dev/null; fi
	rm -rf "$work"
}
trap clean EXIT

scripts/release.sh "$work/one"
scripts/release.sh "$work/two" >/dev/null
diff "$work/one/SHA256SUMS" "$work/two/SHA256SUMS" || fail "two builds of one commit differ"
echo "test-release: two builds are the same"
cd "$work/one"
sha256sum --quiet -c SHA256SUMS
grep -q '"bomFormat": "CycloneDX"' ./*.sbom.json || fail "the SBOM is none"

deb=$(ls shardid_*_linux_"$(dpkg --print-architecture)".deb)
as_root dpkg -i "$deb"
for file in /usr/bin/shardid /etc/shardid/config.yaml /usr/lib/systemd/system/shardid.service \
	/usr/share/bash-completion/completions/shardid; do
	[ -e "$file" ] || fail "$file is missing"
done
version=$(shardid version)
echo "test-release: $version"
case $deb in *"$(echo "$version" | sed 's/^shardid \([^+ ]*\).*/\1/')"*) ;; *) fail "the package is $deb" ;; esac
id shardid >/dev/null || fail "the package made no user"
if command -v systemd-analyze >/dev/null; then
	systemd-analyze verify /usr/lib/systemd/system/shardid.service || fail "systemd refuses the unit"
fi

data=$(as_root mktemp -d)
as_root chown shardid "$data"
log=$work/log
as_root setpriv --reuid=shardid --regid=shardid --clear-groups env SHARDID_DATA_DIR="$data" \
	/usr/bin/shardid serve --demo --config /etc/shardid/config.yaml --set server.addr=127.0.0.1:18080 >"$log" 2>&1 &
server=$!
id=
for _ in $(seq 100); do
	id=$(curl -sf 'http://127.0.0.1:18080/get?appId=1&gatePass=alice' || true)
	[ -z "$id" ] || break
	sleep 0.2
done
case $id in *16385*) echo "test-release: the first ID: $id" ;; *) cat "$log"; fail "no first ID: $id" ;; esac
as_root kill "$(pgrep -P "$server" -x shardid || echo "$server")"
wait "$server" || true
server=

as_root dpkg --remove shardid
[ ! -e /usr/bin/shardid ] || fail "/usr/bin/shardid is still there"
[ -e /etc/shardid/config.yaml ] || fail "the removal took the configuration"
as_root dpkg --purge shardid
[ ! -e /etc/shardid/config.yaml ] || fail "the purge left the configuration"
as_root rm -rf "$data"
if command -v rpm >/dev/null; then
	rpm -qlp ./*_amd64.rpm | grep -q /usr/bin/shardid || fail "the rpm lacks the program"
fi
for archive in shardid_*_darwin_*.tar.gz; do
	tar -tzf "$archive" | grep -q '/shardid$' || fail "$archive lacks the program"
done
cd - >/dev/null
git clone --quiet --no-tags "$PWD" "$work/clone" # as if this version had no tag
"$work/clone/scripts/test-publish.sh" example.com/owner
echo "test-release: ok"
