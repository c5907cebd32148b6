#!/bin/sh
# Installs the client libraries that docs/clients.md uses, as far as this machine may, and
# runs the programs of that page and of docs/examples against shardid, with clients that are
# generated from its OpenAPI document, too. With an argument it runs the stories whose names match that. Libraries of
# Node go into a cache outside the repository. What is missing is named in the last line.
set -eu
cd "$(dirname "$0")/.."

cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/shardid/test-clients
lacking=

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

packages='python3-redis php-cli php-redis redis-tools haproxy curl'
command -v javac >/dev/null || lacking="$lacking javac"
for package in $packages; do
	if dpkg -s "$package" >/dev/null 2>&1; then continue; fi
	echo "test-clients: installs $package"
	as_root apt-get install -y -q --no-install-recommends "$package" >/dev/null 2>&1 || lacking="$lacking $package"
done
for library in ioredis@5.8.2 ioredis4@npm:ioredis@4.28.5 ioredis6@npm:ioredis@6.0.0 redis@5.9.0 redis4@npm:redis@4.7.1 redis6@npm:redis@6.3.1 iovalkey@0.4.0 glide@npm:@valkey/valkey-glide@2.5.2 axios@1.13.2 typeorm@1.1.1 reflect-metadata@0.2.2 sql.js@1.17.0 tsx@4.23.15; do
	if [ -d "$cache/node_modules/${library%%@*}" ]; then continue; fi
	echo "test-clients: installs $library for Node"
	npm install --silent --no-fund --no-audit --prefix "$cache" "$library" >/dev/null 2>&1 || lacking="$lacking $library"
done

# Frameworks of Python, and those of Rust, which are compiled once.
export PYTHON="$cache/python/bin/python" CARGO_TARGET_DIR="$cache/rust/target"
if [ ! -x "$PYTHON" ]; then
	echo "test-clients: installs Django and SQLAlchemy"
	{ python3 -m venv "$cache/python" && "$PYTHON" -m pip -q install redis==8.1.0 Django==5.2.19 SQLAlchemy==2.1.9; } >/dev/null 2>&1 ||
		lacking="$lacking Django SQLAlchemy"
fi
if [ ! -d "$CARGO_TARGET_DIR" ]; then
	echo "test-clients: compiles sqlx for Rust, once: three minutes"
	mkdir -p "$cache/rust/src"
	cp scripts/stories/testdata/rust/Cargo.toml "$cache/rust/"
	echo 'fn main() {}' >"$cache/rust/src/main.rs"
	(cd "$cache/rust" && cargo build -q) >/dev/null 2>&1 || { rm -rf "$CARGO_TARGET_DIR"; lacking="$lacking sqlx"; }
fi

status=0
SHARDID_TEST_CLIENTS=1 DEEP=1 NODE_PATH=$cache/node_modules go test -count=1 -timeout 60m -parallel 4 -v \
	-run "${1:-^Test(Programs|RedisLibraries|Examples)$}" ./scripts/stories || status=$?
if [ -n "$lacking" ]; then echo "NOT INSTALLED:$lacking"; fi
exit "$status"
