#!/bin/sh
# Fetches a server of another Debian release for the tests; see --help.
set -eu

cache=${SHARDID_TEST_SERVERS:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/shardid/test-servers}
recipe=1 # raise it when the way a server is unpacked changes: what is there is built again

usage() {
	cat <<TEXT
usage: scripts/fetch-test-server.sh NAME…

Puts servers that this release of Debian does not have beside the installed ones,
each with all of its libraries, in a folder of its own. Nothing is installed, and
nothing outside that folder changes; it needs apt-get and dpkg, but not root.

  NAME           of Debian          to fetch     on the disk
  mysql-9.7      unstable           77 MB        500 MB
  mariadb-10.11  12                 27 MB        90 MB
  mariadb-11.8   13                 27 MB        90 MB
  redis-7.0      12                 23 MB        42 MB
  redis-8.0      13                 23 MB        42 MB
  valkey-9.1     unstable           28 MB        49 MB

Each takes about a quarter of a minute, once; one that is installed in that version is not fetched. The tests take one
when DB or KV names it: DB=mysql-9.7 KV=valkey-9.1 go test ./...

The folders are in
  $cache
which is SHARDID_TEST_SERVERS, or shardid/test-servers in XDG_CACHE_HOME or ~/.cache.
When a server cannot be fetched the script says why and ends with status 1; the tests of the
other servers can still run.
TEXT
}

# describe NAME sets what belongs to one server: suite is the release of Debian,
# packages what to take from it, programs what the tests call, the server first, and
# banner what the server must say of its version. The names and banners are those of
# scripts/testserver/testserver.go.
describe() {
	case $1 in
	mysql-9.7)
		suite=sid packages='mysql-server-core mysql-client-core'
		programs='sbin/mysqld bin/mysql' banner='Ver 9\.7\.' ;;
	mariadb-10.11)
		suite=bookworm packages='mariadb-server-core mariadb-client-core'
		programs='sbin/mariadbd bin/mariadb bin/my_print_defaults bin/resolveip' banner='Ver 10\.11\.' ;;
	mariadb-11.8)
		suite=trixie packages='mariadb-server-core mariadb-client-core'
		programs='sbin/mariadbd bin/mariadb bin/my_print_defaults bin/resolveip' banner='Ver 11\.8\.' ;;
	redis-7.0)
		suite=bookworm packages='redis-server redis-sentinel redis-tools'
		programs='bin/redis-server bin/redis-cli' banner='v=7\.0\.' ;;
	redis-8.0)
		suite=trixie packages='redis-server redis-sentinel redis-tools'
		programs='bin/redis-server bin/redis-cli' banner='v=8\.0\.' ;;
	valkey-9.1)
		suite=sid packages='valkey-server valkey-sentinel valkey-tools'
		programs='bin/valkey-server bin/valkey-cli' banner='v=9\.1\.' ;;
	*)
		echo "test servers: no server is called $1; see scripts/fetch-test-server.sh --help" >&2
		exit 2 ;;
	esac
	folder=$cache/$1 main=${programs%% *}
}

# runs reports whether the server in folder $1 starts and has the wanted version.
runs() {
	"$1/usr/$main" --version 2>&1 | grep -q "$banner"
}

# installed reports whether this machine's own server has the wanted version.
installed() {
	for place in "$PATH" /usr/sbin /usr/local/sbin /usr/libexec; do
		found=$(PATH=$place command -v "${main##*/}") || continue
		if "$found" --version 2>&1 | grep -q "$banner"; then return 0; fi
	done
	return 1
}

# present reports whether the server is there, as this script would build it.
present() {
	[ "$(cat "$folder/recipe" 2>/dev/null)" = "$recipe" ] && runs "$folder"
}

# mirror prints where this machine's apt gets Debian from.
mirror() {
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -E -m 1 '/debian/$' || {
		echo "this machine's apt names no mirror of Debian" >&2
		return 1
	}
}

# apt_of runs an apt program on an index of its own, in which nothing is installed:
# what it fetches is complete, the C library included.
apt_of() {
	program=$1
	shift
	"$program" -qq -o Dir::Etc::sourcelist="$index/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::State="$index/state" -o Dir::State::status="$index/status" -o Dir::Cache="$index/cache" \
		-o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
		-o Acquire::Retries=3 -o APT::Install-Recommends=false -o APT::Sandbox::User="$(id -un)" "$@"
}

# download fetches the packages, and all that they need, into $index/cache/archives.
download() {
	mkdir -p "$index/state/lists/partial" "$index/cache/archives/partial"
	: >"$index/status"
	signed=/usr/share/keyrings/debian-archive-keyring.gpg
	if [ -r "$signed" ]; then signed="[signed-by=$signed] "; else signed=; fi
	from=$(mirror) || return 1
	echo "deb $signed$from $suite main" >"$index/sources.list"
	apt_of apt-get update
	# shellcheck disable=SC2086 # a list of words
	apt_of apt-get install -y --download-only $packages
}

# unpack makes $new of what was downloaded, without what no server reads.
unpack() {
	for package in "$index"/cache/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$package" | tar -x -C "$new" \
			--exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale' \
			--exclude='./usr/lib/systemd' --exclude='./var' --exclude='./etc/*/*' --no-same-owner
	done
}

# wrap puts a script in the place of each program. A program runs by the loader and
# the libraries it was built with, which are not those of this machine.
wrap() {
	loader=$(cd "$new" && find . -name 'ld-linux*.so.*' | head -n 1)
	libraries=$(cd "$new" && find . -name libc.so.6 | head -n 1)
	libraries=${libraries%/*}
	for program in $programs; do
		mv "$new/usr/$program" "$new/usr/$program.real"
		cat >"$new/usr/$program" <<TEXT
#!/bin/sh
root=\${0%/usr/*}
exec "\$root/${loader#./}" --library-path "\$root/${libraries#./}:\$root/usr/lib/mysql/private" \
	--argv0 "\$0" "\$root/usr/$program.real" "\$@"
TEXT
		chmod 755 "$new/usr/$program"
	done
}

# initialise makes the data directory that each test of MySQL copies, as making one
# takes seconds. root may come from 127.0.0.1 too, and has no password.
initialise() {
	case $1 in mysql-*) ;; *) return 0 ;; esac
	cat >"$new/init.sql" <<'TEXT'
CREATE USER root@'127.0.0.1';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
TEXT
	set -- --no-defaults --basedir="$new/usr" --lc-messages-dir="$new/usr/share/mysql" --datadir="$new/data" \
		--initialize-insecure --init-file="$new/init.sql" --skip-log-bin --innodb-redo-log-capacity=8M \
		--secure-file-priv=NULL --mysqlx=OFF
	if [ "$(id -u)" -eq 0 ]; then set -- "$@" --user=root; fi
	"$new/usr/sbin/mysqld" "$@" || return 1
	rm -f "$new/data/auto.cnf" "$new/init.sql" # auto.cnf: each server makes a name of its own
}

# fetch builds $folder anew. set -e does not reach into it, as provide asks how it
# went: each step is checked here.
fetch() {
	if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
		echo "it comes from Debian's packages, and this system has no apt-get or no dpkg-deb" >&2
		return 1
	fi
	new=$folder.new
	rm -rf "$new"
	mkdir -p "$new" && download && unpack && wrap && initialise "$1" || return 1
	if ! runs "$new"; then
		echo "Debian's $suite has another version by now: $("$new/usr/$main" --version 2>&1 | head -n 1)" >&2
		return 1
	fi
	echo "$recipe" >"$new/recipe"
	rm -rf "$folder"
	mv "$new" "$folder"
}

# provide makes sure of one server, and says why it cannot.
provide() {
	describe "$1"
	if installed || present; then
		echo "test servers: $1 is there"
		return 0
	fi
	echo "test servers: fetching $1 from Debian's $suite, once: 15 to 60 s"
	index=$(mktemp -d)
	if fetch "$1" >"$folder.log" 2>&1; then
		rm -rf "$index" "$folder.log"
		return 0
	fi
	rm -rf "$index" "$folder.new"
	echo "test servers: $1 could not be fetched: $(tail -n 1 "$folder.log") (all of it: $folder.log)" >&2
	return 1
}

case "${1:-}" in
-h | --help) usage; exit 0 ;;
'') usage >&2; exit 2 ;;
esac
for name in "$@"; do describe "$name"; done
mkdir -p "$cache"
exec 9>"$cache/lock"
if command -v flock >/dev/null; then flock 9; fi # another run may fetch the same
failed=0
for name in "$@"; do
	provide "$name" || failed=1
done
exit $failed
