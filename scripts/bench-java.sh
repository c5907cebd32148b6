#!/usr/bin/env bash
# Measures the Java client against a server of its own on the loopback: nanoseconds an ID. Takes a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v javac >/dev/null; then
	echo "bench-java: skipped, there is no javac: install a JDK, such as Debian's default-jdk-headless"
	exit 0
fi
work=$(mktemp -d)
export SHARDID_DATA_DIR=$work/data
server=''
trap '[ -z "$server" ] || kill "$server"; wait; rm -rf "$work"' EXIT
bin/shardid names add --name bench --worker-bits 2 --seq-bits 20 >/dev/null 2>&1
bin/shardid tags add --tag bench --step 1000000 >/dev/null 2>&1
bin/shardid serve --set server.addr=127.0.0.1:0 2>"$work/log" &
server=$!
addr=''
for _ in $(seq 100); do
	addr=$(sed -n 's/.*"msg":"listening".*"addr":"\([^"]*\)".*/\1/p' "$work/log" | head -n 1)
	if [ -n "$addr" ]; then break; fi
	sleep 0.1
done
mkdir "$work/classes"
find client/java/src -name '*.java' -exec javac --release 8 -Xlint:-options -d "$work/classes" {} +
java -cp "$work/classes" shardid.Bench "http://$addr"
