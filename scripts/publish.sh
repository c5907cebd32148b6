#!/usr/bin/env bash
# Publishes a version; see --help.
set -euo pipefail

usage() {
	cat <<'TEXT'
usage: make publish HOME=host/owner [REGISTRY=host/owner] [GIT=URL] [GROUP=org.example]
       make publish HOME=host/owner DRY=1

Publishes the commit that is checked out as the version of cmd/shardid/version.go. A copy gets the module path
HOME/shardid, and go.mod files that need no folder beside them. Then it makes, in this order:

  dist/                     what make release builds, and shardid_VERSION_maven.zip for Maven Central
  REGISTRY/shardid          the image for linux/amd64 and linux/arm64, as deploy/docker/Dockerfile describes it, but
                            with the certificate authorities of this machine
  REGISTRY/charts/shardid   the Helm chart, which names that image
  GIT                       the tags client/vVERSION, client/gormid/vVERSION and vVERSION, all or none

REGISTRY is HOME unless it is given: on GitHub it is ghcr.io/owner. GIT is https://HOME/shardid, GROUP is what Maven
Central grants to the owner of HOME. Log in to both before, by docker login and as git push needs it. cosign signs
the image, the chart and SHA256SUMS, with COSIGN_FLAGS; gpg signs the jars. What is not there signs nothing, and the
last lines say so. The tags come last, so a run that failed can be repeated: one commit gives the same tags and image.

DRY=1 does all this on the loopback, and uses what was published: see scripts/test-publish.sh.
TEXT
}

fail() {
	echo "publish: $*" >&2
	exit 2
}

[ "${1-}" = --help ] && usage && exit
check=
if [ "${1-}" = --check ]; then # only what needs no program of the Makefile
	check=yes
	shift
fi
home=${1-}
cd "$(dirname "$0")/.."
[[ $home =~ ^[a-z0-9-]+(\.[a-z0-9-]+)+/[A-Za-z0-9_-][A-Za-z0-9._-]*$ ]] ||
	fail "name the home as host/owner, such as make publish HOME=example.com/owner; it is \"$home\""
changed=$(git status --porcelain)
[ -z "$changed" ] || fail "commit or stash what differs from the last commit:"$'\n'"$(head -n 5 <<<"$changed")"
version=$(sed -n 's/^var version = "\(.*\)"$/\1/p' cmd/shardid/version.go)
[ -z "$(git tag --list "v$version")" ] || fail "raise the version in cmd/shardid/version.go: v$version has a tag"
[ -z "$check" ] || exit 0

module=$home/shardid
registry=${REGISTRY:-${home,,}}
remote=${GIT:-https://$module}
reversed=$(tr . '\n' <<<"${home%/*}" | tac | paste -sd.)
[ "$reversed" != com.github ] || reversed=io.github # as Maven Central has it
group=${GROUP:-$reversed.${home#*/}}
tag=$(git ls-remote "$remote" "refs/tags/v$version") || fail "name a Git repository by GIT that can be read: $remote"
[ -z "$tag" ] || fail "raise the version in cmd/shardid/version.go: $remote has the tag v$version"
for program in go jq mvn jar "${NFPM:?is the path of nfpm: run make publish}" "${CRANE:?}" "${HELM:?}"; do
	command -v "$program" >/dev/null || fail "install $program"
done

root=$PWD dist=$PWD/dist
work=$(mktemp -d)
proxy=
clean() {
	if [ -n "$proxy" ]; then kill "$proxy"; fi
	rm -rf "$work"
}
trap clean EXIT

echo "publish: $version as $module"
copy=$work/shardid
git clone --quiet "$root" "$copy"
cd "$copy"
scripts/rename-module.sh "$module"
sed -i -e '/^Nothing is published yet/d; /^还没有公开发布/d' -e "s#registry/owner#$registry#g; s#host/owner#$home#g" \
	-e 's/^| can be fetched today | no /| can be fetched today | yes /; s/^| 现在就能下载 | 否 /| 现在就能下载 | 是 /' \
	README.md README.zh-CN.md docs/clients.md client/java/README.md client/java/pom.xml
sed -i "s#<groupId>shardid</groupId>#<groupId>$group</groupId>#
	s#<version>0-SNAPSHOT</version>#<version>$version</version>#" \
	client/java/README.md client/java/pom.xml client/java/*/pom.xml
sed -i "s#^  repository: shardid\$#  repository: $registry/shardid#" deploy/helm/shardid/values.yaml

# A module is tagged before the next one needs it, as go.sum has its sum. Their commits are those of the same person and
# time as the one that is published. Nobody else has these modules, so they stay out of the user's cache.
for who in AUTHOR COMMITTER; do
	of=${who:0:1}
	export "GIT_${who}_NAME=$(git log -1 "--format=%${of,}n")" "GIT_${who}_EMAIL=$(git log -1 "--format=%${of,}e")"
	export "GIT_${who}_DATE=$(git log -1 --date=raw "--format=%${of,}d")"
done
go build -C scripts/moduleproxy -o "$work/moduleproxy" .
"$work/moduleproxy" "$copy" "$module" >"$work/url" &
proxy=$!
until [ -s "$work/url" ]; do kill -0 "$proxy"; sleep 0.1; done
GOPROXY=$(cat "$work/url"),file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)
GOFLAGS="-modcacherw $(go env GOFLAGS)"
export GOPROXY GOFLAGS GOMODCACHE=$work/modules GONOSUMDB=$module

tag_module() { # FOLDER NEEDED…: the module of FOLDER needs those of NEEDED as they were tagged
	local folder=$1 tag=$1/v$version needed
	shift
	for needed; do
		go mod edit -dropreplace="$needed" -require="$needed@v$version" "$folder/go.mod"
	done
	[ $# = 0 ] || go get -C "$folder" "${@/%/@v$version}"
	git commit --quiet --all --message="Publish ${tag#./} of $module"
	git tag "${tag#./}"
}
tag_module client
tag_module client/gormid "$module/client"
tag_module . "$module/client" "$module/client/gormid"
revision=$(git rev-parse HEAD) epoch=$(git log -1 --format=%ct)

scripts/release.sh "$dist"

mvn -B -q -f client/java -pl '!tests' -DskipTests -DaltDeploymentRepository="bundle::file://$work/maven" \
	package source:jar-no-fork javadoc:jar deploy:deploy
find "$work/maven" -name 'maven-metadata.xml*' -delete
unsigned=
if [ -n "$(gpg --batch --list-secret-keys 2>/dev/null)" ]; then
	find "$work/maven" \( -name '*.jar' -o -name '*.pom' \) -print0 | xargs -0 -n 1 gpg --batch --yes --armor --detach-sign
else
	unsigned="the jars, as gpg has no secret key"
fi
jar --create --no-manifest --file "$dist/shardid_${version}_maven.zip" -C "$work/maven" .
(cd "$dist" && sha256sum shardid_* >SHA256SUMS)

# The image has the files that the Dockerfile makes, the binaries of the release, and the settings of the last stage.
layout=$work/image
mkdir -p "$layout/blobs/sha256"
echo '{"imageLayoutVersion": "1.0.0"}' >"$layout/oci-layout"
dockerfile=$(sed -e ':line' -e '/\\$/{N; s/\\\n//; b line' -e '}' deploy/docker/Dockerfile)
files=$(sed -n 's/^RUN \(mkdir .*\)/\1/p' <<<"$dockerfile")
owner=$(sed -n 's/^COPY .*--chown=\([0-9]*:[0-9]*\) .*/\1/p' <<<"$dockerfile")

blob() { # FILE TYPE: puts FILE into the layout and prints its descriptor
	local sum
	sum=$(sha256sum <"$1" | cut -d ' ' -f 1)
	cp "$1" "$layout/blobs/sha256/$sum"
	jq -n --arg type "application/vnd.oci.image.$2" --arg sum "$sum" --argjson size "$(stat -c %s "$1")" \
		'{mediaType: $type, digest: "sha256:\($sum)", size: $size}'
}

for arch in amd64 arm64; do
	out=$work/$arch
	(umask 022 && bash -ec "${files//\/out\//$out/}")
	tar -xzf "$dist/shardid_${version}_linux_$arch.tar.gz" -C "$out" --strip-components=1 --wildcards '*/shardid'
	same=(--sort=name --mtime="@$epoch" --numeric-owner)
	tar -C "$out" "${same[@]}" --owner=0 --group=0 -cf "$out.tar" etc shardid
	tar -C "$out" "${same[@]}" --owner="${owner%:*}" --group="${owner#*:}" -rf "$out.tar" data
	gzip -n9 <"$out.tar" >"$out.tar.gz"
	sed '1,/^FROM scratch/d' <<<"$dockerfile" | jq -nR --arg arch "$arch" --arg revision "$revision" \
		--arg source "https://$module" --arg created "$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)" \
		--arg layer "sha256:$(sha256sum <"$out.tar" | cut -d ' ' -f 1)" -f scripts/image.jq >"$out.config"
	{ blob "$out.config" config.v1+json; blob "$out.tar.gz" layer.v1.tar+gzip; } | jq -s '{
		schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json", config: .[0], layers: .[1:]
	}' >"$out.manifest"
	blob "$out.manifest" manifest.v1+json | jq --arg arch "$arch" '.platform = {os: "linux", architecture: $arch}'
done | jq -s '{
	schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: .
}' >"$layout/index.json"
image=$("$CRANE" push --index "$layout" "$registry/shardid:$version")
echo "publish: the image $image"

plain=() http=()
case $registry in 127.0.0.1:*) plain=(--plain-http) http=(--allow-http-registry) ;; esac
"$HELM" package deploy/helm/shardid --destination "$work" >/dev/null
"$HELM" push "${plain[@]}" "$work/shardid-$version.tgz" "oci://$registry/charts" 2>&1 | tee "$work/pushed"
chart=$registry/charts/shardid@$(sed -n 's/^Digest: //p' "$work/pushed")
echo "publish: the chart $chart"

if command -v cosign >/dev/null; then
	read -ra flags <<<"${COSIGN_FLAGS-}"
	cosign sign --yes "${flags[@]}" "${http[@]}" "$image" "$chart"
	cosign attest --yes "${flags[@]}" "${http[@]}" --type cyclonedx --predicate "$dist/shardid_$version.sbom.json" "$image"
	cosign sign-blob --yes "${flags[@]}" --bundle "$dist/SHA256SUMS.sigstore.json" "$dist/SHA256SUMS" >/dev/null
else
	unsigned="${unsigned:+$unsigned; }the image, the chart and SHA256SUMS, as there is no cosign"
fi

# By the configuration of the sources, which may have what GIT asks for.
refs=()
for tag in "client/v$version" "client/gormid/v$version" "v$version"; do
	refs+=("$(git rev-parse "$tag"):refs/tags/$tag")
done
GIT_ALTERNATE_OBJECT_DIRECTORIES=$copy/.git/objects git -C "$root" push --quiet --atomic "$remote" "${refs[@]}"
echo "publish: the tags client/v$version, client/gormid/v$version and v$version in $remote"
[ -z "$unsigned" ] || echo "publish: NOT SIGNED: $unsigned"
echo "publish: put the files of dist/ beside the tag, and give its Maven bundle, of $group, to Maven Central"
