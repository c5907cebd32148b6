#!/usr/bin/env bash
# Builds a release into dist/; see --help.
set -euo pipefail

usage() {
	cat <<'TEXT'
usage: scripts/release.sh [DIR]

Builds into DIR, dist by default and emptied first, for linux and darwin, amd64 and arm64:

  shardid_VERSION_OS_ARCH.tar.gz   binary, config.yaml, grants.sql, README, CHANGELOG,
                                     completions, licence
  shardid_VERSION_linux_ARCH.deb, .rpm
  shardid_VERSION.sbom.json        CycloneDX: what the binary is made of
  SHA256SUMS

VERSION is the git tag, v0.5.0 for example, of the commit; without one it is the version
of cmd/shardid/version.go, the commit's time and its name. Two runs of one commit with one
Go give the same sums: all times are the commit's. NFPM names the nfpm to use.
TEXT
}

case "${1:-}" in
-h | --help) usage; exit 0 ;;
-*) usage >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
dist=$(realpath -m "${1:-dist}")
nfpm=${NFPM:?is the path of nfpm: run make release}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
MTIME=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
if ! VERSION=$(git describe --exact-match --tags --match 'v[0-9]*' 2>/dev/null); then
	VERSION=v$(sed -n 's/^var version = "\(.*\)"$/\1/p' cmd/shardid/version.go)~$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M).$(git rev-parse --short=12 HEAD)
fi
VERSION=${VERSION#v}
revision=$(git rev-parse HEAD)
export SOURCE_DATE_EPOCH
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
rm -rf "$dist"
mkdir -p "$dist" "$stage/completions" "$stage/src"
git archive HEAD | tar -xf - -C "$stage/src" # what is not committed is not in it

build() { # OS ARCH FILE
	CGO_ENABLED=0 GOOS=$1 GOARCH=$2 go build -trimpath -buildvcs=false -tags nomsgpack \
		-ldflags "-s -w -buildid= -X main.version=$VERSION -X main.revision=$revision" -o "$3" ./cmd/shardid
}

echo "release: $VERSION into $dist"
cd "$stage/src"
build "$(go env GOHOSTOS)" "$(go env GOHOSTARCH)" "$stage/host"
"$stage/host" completion bash >"$stage/completions/shardid.bash"
"$stage/host" completion zsh >"$stage/completions/_shardid"
"$stage/host" completion fish >"$stage/completions/shardid.fish"
go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0 bin -json -std -noserial -output-version 1.5 \
	-version "$VERSION" "$stage/host" |
	sed "s|\"timestamp\": \"[^\"]*\"|\"timestamp\": \"$MTIME\"|" >"$dist/shardid_$VERSION.sbom.json"
sed 's|/usr/local/bin/|/usr/bin/|' deploy/systemd/shardid.service >"$stage/shardid.service"

for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do
	os=${target%/*} arch=${target#*/}
	name=shardid_${VERSION}_${os}_$arch
	echo "release: $name"
	mkdir "$stage/$name"
	build "$os" "$arch" "$stage/$name/shardid"
	cp -r config.yaml deploy/grants.sql LICENSE README.md CHANGELOG.md "$stage/completions" "$stage/$name/"
	tar -C "$stage" --sort=name --mtime="$MTIME" --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw -cf - "$name" | gzip -n9 >"$dist/$name.tar.gz"
	if [ "$os" = linux ]; then
		cp "$stage/$name/shardid" "$stage/shardid"
		for packager in deb rpm; do
			sed "s|\${STAGE}|$stage|; s|\${ARCH}|$arch|; s|\${VERSION}|$VERSION|; s|\${MTIME}|$MTIME|" deploy/package/nfpm.yaml >"$stage/nfpm.yaml"
			"$nfpm" package --config "$stage/nfpm.yaml" --packager "$packager" --target "$dist/$name.$packager"
		done
	fi
done
(cd "$dist" && sha256sum -- * >SHA256SUMS)
ls -l "$dist"
