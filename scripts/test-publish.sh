#!/usr/bin/env bash
# Publishes to the loopback and uses what was published; see --help.
set -euo pipefail

usage() {
	cat <<'TEXT'
usage: make publish HOME=host/owner DRY=1

Runs scripts/publish.sh with a registry and a bare Git repository that it starts itself, and then, as somebody
who has nothing but what was published:

  pulls the image that the chart of oci://… names, and runs it read-only as its user, without any network
  builds the program of docs/clients.md with the client, and gormid and shardid itself, by go get and go install
  builds an empty Spring Boot project with the starter

Both programs get IDs from the image. It needs root, Maven, and 3 GB in TMPDIR. What it published is gone at its
end, but for dist/.
TEXT
}

fail() {
	echo "test-publish: FAILED: $*" >&2
	exit 1
}
as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}
since() { # NANOSECONDS: the seconds since then
	awk -v from="$1" -v to="$(date +%s%N)" 'BEGIN {printf "%.1f s", (to - from) / 1e9}'
}

[ "${1-}" = --help ] && usage && exit
home=${1-}
cd "$(dirname "$0")/.."
work=$(mktemp -d)
chmod 0755 "$work"
started=()
group=
forget_artifacts() { # of the local repository, which would keep what was never published
	rm -rf "$HOME/.m2/repository/$group"/shardid-{parent,client,spring-boot-starter}/"$version"
}
clean() {
	for pid in "${started[@]}"; do as_root kill "$pid" 2>/dev/null || true; done
	if [ -n "$group" ]; then forget_artifacts; fi
	as_root rm -rf "$work"
}
trap clean EXIT

: "${CRANE:?is the path of crane: run make publish HOME=host/owner DRY=1}" "${HELM:?}"
"$CRANE" registry serve --address 127.0.0.1:0 2>"$work/registry" &
started+=($!)
port=
until [ -n "$port" ]; do
	kill -0 "${started[0]}" || fail "no registry: $(cat "$work/registry")"
	sleep 0.1
	port=$(sed -n 's/.*serving on port //p' "$work/registry")
done
git init --quiet --bare "$work/shardid.git"
owner=${home#*/}
export REGISTRY=127.0.0.1:$port/${owner,,} GIT=$work/shardid.git
if command -v cosign >/dev/null; then # with a key, as the public log is no place for a rehearsal
	(cd "$work" && COSIGN_PASSWORD='' cosign generate-key-pair)
	export COSIGN_PASSWORD='' COSIGN_FLAGS="--key $work/cosign.key --use-signing-config=false --tlog-upload=false"
fi
scripts/publish.sh "$home"

version=$(sed -n 's/^var version = "\(.*\)"$/\1/p' cmd/shardid/version.go)
module=$home/shardid
if scripts/publish.sh "$home" >"$work/again" 2>&1 || ! grep -q "has the tag v$version" "$work/again"; then
	fail "a version that has a tag was published again: $(tail -n 3 "$work/again")"
fi
git clone --quiet --branch "v$version" "$GIT" "$work/clone" 2>/dev/null
if git -C "$work/clone" grep -n 'host/owner\|registry/owner\|Nothing is published' -- 'README*' docs client; then
	fail "the pages of v$version do not know that it is published"
fi

echo "test-publish: the chart and the image"
chart=$("$HELM" template shardid "oci://$REGISTRY/charts/shardid" --version "$version" --plain-http --kube-version 1.30 \
	-f deploy/helm/shardid/ci/embedded.yaml)
image=$(sed -n 's/^ *image: "\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' <<<"$chart" | sort -u)
[ "$image" = "$REGISTRY/shardid:$version" ] || fail "the chart names the image $image"
if command -v cosign >/dev/null; then
	public=(--key "$work/cosign.pub" --insecure-ignore-tlog)
	cosign verify "${public[@]}" --allow-http-registry "$image" "$REGISTRY/charts/shardid:$version" >/dev/null
	cosign verify-attestation "${public[@]}" --allow-http-registry --type cyclonedx "$image" >/dev/null
	cosign verify-blob "${public[@]}" --bundle dist/SHA256SUMS.sigstore.json dist/SHA256SUMS
fi
for arch in arm64 amd64; do
	mkdir "$work/$arch"
	"$CRANE" export --platform "linux/$arch" "$image" - | as_root tar -xp --numeric-owner -C "$work/$arch"
	tar -xzOf "dist/shardid_${version}_linux_$arch.tar.gz" --wildcards '*/shardid' | cmp - "$work/$arch/shardid" ||
		fail "the image for $arch has another binary than the release"
done

# serve_image runs what the configuration of the image says, as an engine does it that is told --read-only, with a
# volume and no network but the loopback of its own.
serve_image() { # ROOT COMMAND…
	# shellcheck disable=SC2016 # they are those of the shell inside
	as_root unshare --mount --net bash -ec '
		root=$1 user=$2 folder=$3 volume=$4
		shift 4
		ip link set lo up
		mount --bind "$root" "$root"
		mount -o remount,bind,ro "$root"
		mount -t tmpfs -o "$(stat -c uid=%u,gid=%g,mode=%a "$root$volume")" tmpfs "$root$volume"
		echo $$ >"$root.pid"
		exec env -i "$(command -v unshare)" --root="$root" --wd="$folder" --setgid "${user#*:}" --setuid "${user%:*}" "$@"
	' "$1" "$1" "$user" "$folder" "$volume" "${@:2}" >"$work/log" 2>&1
}
inside() {
	as_root nsenter --target "$(cat "$work/root.pid")" "$@"
}

arch=$(dpkg --print-architecture 2>/dev/null || go env GOARCH)
config=$("$CRANE" config --platform "linux/$arch" "$image")
user=$(jq -r .config.User <<<"$config") folder=$(jq -r .config.WorkingDir <<<"$config")
volume=$(jq -r '.config.Volumes | keys[0]' <<<"$config")
mapfile -t command < <(jq -r '.config.Entrypoint[], .config.Cmd[]' <<<"$config")
mapfile -t health < <(jq -r '.config.Healthcheck.Test[1:][]' <<<"$config")
begun=$(date +%s%N)
mkdir "$work/root"
"$CRANE" export --platform "linux/$arch" "$image" - | as_root tar -xp --numeric-owner -C "$work/root"
pulled=$(since "$begun")
serve_image "$work/root" "${command[@]}" --demo &
running=$!
id=
until [ -n "$id" ]; do
	kill -0 "$running" || fail "the image does not run: $(cat "$work/log")"
	sleep 0.05
	id=$([ ! -s "$work/root.pid" ] || inside --net curl -sf 'http://127.0.0.1:8080/v1/queue/1/ids?gatePass=alice' || true)
done
echo "test-publish: $(since "$begun") from the pull, which took $pulled, to the first ID: $id"
started+=("$(cat "$work/root.pid")")
[ "$id" = '{"code":0,"ids":["16385"]}' ] || fail "the first ID is $id"
until inside --mount --net --root --wd --setgid "${user#*:}" --setuid "${user%:*}" "${health[@]}"; do sleep 0.1; done

echo "test-publish: go get $module/client@v$version"
go build -C scripts/moduleproxy -o "$work/moduleproxy" .
"$work/moduleproxy" "$work/clone" "$module" >"$work/url" &
started+=($!)
until [ -s "$work/url" ]; do kill -0 "${started[-1]}"; sleep 0.1; done
mkdir "$work/app"
(
	GOPROXY=$(cat "$work/url"),file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)
	GOFLAGS="-trimpath -modcacherw $(go env GOFLAGS)"
	export GOPROXY GOFLAGS GOMODCACHE=$work/modules GONOSUMDB=$module GOBIN=$work/bin
	cd "$work/app"
	go mod init example.org/app
	# shellcheck disable=SC2016 # no command
	sed -n '/^```go client$/,/^```$/{/^```/!p}' "$work/clone/docs/clients.md" >main.go
	go get "$module/client@v$version" "$module/client/gormid@v$version"
	go build -o app .
	go build "$module/client/gormid"
	CGO_ENABLED=0 go install "$module/cmd/shardid@v$version"
)
ids=$(inside --net "$work/app/app")
echo "test-publish: $("$work/bin/shardid" version) by go install; IDs by the Go client: $ids"
[[ $ids =~ ^[0-9]+\ [0-9A-Za-z]+\ \[[0-9]+\ [0-9]+\ [0-9]+\]$ ]] || fail "the Go client got $ids"

mkdir -p "$work/maven" "$work/spring/src/main/java/app"
bundle=$PWD/dist/shardid_${version}_maven.zip
(cd "$work/maven" && jar --extract --file "$bundle")
group=$(cd "$work/maven" && find . -type d -name shardid-spring-boot-starter -printf '%P\n')
group=${group%/*}
forget_artifacts # so that the bundle has to bring them
echo "test-publish: ${group//\//.}:shardid-spring-boot-starter:$version"
cat >"$work/spring/pom.xml" <<XML
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <parent>
    <groupId>org.springframework.boot</groupId>
    <artifactId>spring-boot-starter-parent</artifactId>
    <version>$(sed -n 's#.*<spring-boot-3.version>\(.*\)</.*#\1#p' client/java/pom.xml)</version>
  </parent>
  <groupId>org.example</groupId>
  <artifactId>app</artifactId>
  <version>1</version>
  <repositories>
    <repository>
      <id>bundle</id>
      <url>file://$work/maven</url>
    </repository>
  </repositories>
  <dependencies>
    <dependency>
      <groupId>${group//\//.}</groupId>
      <artifactId>shardid-spring-boot-starter</artifactId>
      <version>$version</version>
    </dependency>
  </dependencies>
</project>
XML
cat >"$work/spring/src/main/java/app/App.java" <<'JAVA'
package app;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import shardid.spring.ShardidIds;

@SpringBootApplication(proxyBeanMethods = false)
public class App {
    public static void main(String[] args) {
        try (var context = SpringApplication.run(App.class, args)) {
            System.out.println("ID " + context.getBean(ShardidIds.class).next("queue:1", "alice"));
        }
    }
}
JAVA
(cd "$work/spring" && mvn -B -q -ntp compile dependency:build-classpath -Dmdep.outputFile=classpath)
id=$(inside --net java -cp "$work/spring/target/classes:$(cat "$work/spring/classpath")" \
	-Dshardid.urls=http://127.0.0.1:8080 app.App | tee "$work/java" | sed -n 's/^ID //p')
[ -n "$id" ] || fail "the Spring application got no ID: $(cat "$work/java")"
echo "test-publish: an ID by the starter: $id"

as_root kill "$(cat "$work/root.pid")"
wait "$running" || fail "the image ended with $?: $(cat "$work/log")"
echo "test-publish: ok"
