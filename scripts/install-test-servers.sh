#!/bin/sh
# Installs the servers, and the browser, that the tests start for themselves; see --help.
set -eu

packages='mariadb-server redis-server zookeeper'
java=openjdk-17-jre-headless # what ZooKeeper is tested with; see choose_java
policy=/usr/sbin/policy-rc.d
our_policy=

# Servers often lie outside the PATH of an ordinary user. The same places are
# searched by scripts/testserver/testserver.go.
PATH="$PATH:/usr/sbin:/usr/local/sbin:/usr/local/bin:/usr/bin:/usr/libexec:/usr/lib/mysql:/usr/lib/mariadb:/usr/local/mysql/bin:/opt/homebrew/bin:/opt/homebrew/sbin"

usage() {
	cat <<'TEXT'
usage: scripts/install-test-servers.sh [--help | --plan] [SERVER…]

Makes sure that Redis, MariaDB and ZooKeeper, which the tests run as private
servers on free ports, are installed, and Chromium, which opens the console for
them. Sentinel is part of redis-server; ZooKeeper needs a Java runtime, any that is
there will do.

  nothing missing       prints one line and ends
  Debian, Ubuntu        installs the missing packages with apt-get, as root or
                        with a sudo that asks for no password; the services of
                        the packages are not started
  anything else         prints what to install and ends with status 1
  --plan                only says what it would do and how long that takes

SERVER is a version that this system does not have, such as mysql-9.7; those that DB
and KV name are added. scripts/fetch-test-server.sh puts them into a cache of their
own; see its --help. One that cannot be fetched is told and is no failure: the tests
of the others can run, and scripts/test-stores.sh names it again.
TEXT
}

has() {
	for name in "$@"; do
		if command -v "$name" >/dev/null 2>&1; then return 0; fi
	done
	return 1
}

missing() {
	has redis-server || echo redis-server
	has mariadbd mysqld || echo mariadbd
	has mariadb-install-db mysql_install_db || echo mariadb-install-db
	has mariadb mysql || echo 'mariadb (client)'
	[ -r /usr/share/java/zookeeper.jar ] || [ -d /opt/zookeeper/lib ] || echo zookeeper
	has_java || echo java
	has chromium chromium-browser google-chrome || echo chromium
}

# has_java runs it: macOS has a java that only says where to get one.
has_java() {
	has java && java -version >/dev/null 2>&1
}

advice() {
	cat >&2 <<TEXT
Please install MariaDB (server and client), Redis 7 or newer, ZooKeeper 3.8 or
newer, Java 11 or newer and Chromium or Chrome 123 or newer:
  Debian, Ubuntu   sudo apt-get install --no-install-recommends $packages $java chromium
  Fedora           sudo dnf install mariadb-server redis java-21-openjdk-headless chromium    (or: valkey-compat-redis)
  macOS            brew install mariadb redis openjdk; brew install --cask chromium
Where ZooKeeper is no package (Fedora, macOS), unpack the archive from
https://zookeeper.apache.org/releases.html as /opt/zookeeper.
TEXT
}

# as_root runs a command as root, without ever asking for a password.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_install() {
	has apt-get || return 1
	[ "$(id -u)" -eq 0 ] || { has sudo && sudo -n true 2>/dev/null; }
}

# forbid_services keeps the packages from starting their services, by Debian's
# own switch; one that the administrator has set is left alone.
forbid_services() {
	if [ -e "$policy" ] || [ -L "$policy" ]; then return 0; fi
	our_policy=yes
	printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
	as_root chmod 755 "$policy"
}

allow_services() {
	if [ -n "$our_policy" ]; then as_root rm -f "$policy"; fi
	our_policy=
}

apt() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get \
		-o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@"
}

# choose_java adds a Java runtime to the packages, unless there is one. Releases
# newer than Debian 12 have another version, behind the name of the default.
choose_java() {
	if has_java; then return 0; fi
	if ! apt-cache show "$java" >/dev/null 2>&1; then java=default-jre-headless; fi
	packages="$packages $java"
}

install_packages() {
	trap allow_services EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	echo "test servers: 1/2 apt-get update"
	tries=0
	until apt update; do # apt-get waits for the lock of packages, and not for that of their lists
		if [ $((tries += 1)) -ge 30 ]; then return 1; fi
		sleep 2
	done
	choose_java
	has chromium chromium-browser google-chrome && browser='' || browser=chromium
	echo "test servers: 2/2 apt-get install $packages $browser"
	forbid_services
	# One by one where a release lacks the browser; and no package of the user, such as MySQL, is removed for them.
	for some in "$packages" $browser; do
		# shellcheck disable=SC2086 # a list of words
		apt install -y --no-remove --no-install-recommends $some || true # what is missing then is said
	done
	allow_services
	if [ -d /run/systemd/system ]; then
		echo "test servers: the services were not started now; to keep them off after a reboot:"
		echo "  sudo systemctl disable mariadb redis-server"
	fi
}

# plan says what a run without --plan would do.
plan() {
	lacking=$(missing | paste -s -d " " -)
	if [ -z "$lacking" ]; then
		echo "make test: installs no package: Redis, MariaDB, ZooKeeper and Chromium are there"
	elif can_install; then
		echo "make test: installs Debian packages for: $lacking; 450 MB, 1 to 4 minutes, once"
	else
		echo "make test: cannot install $lacking here and will say what to do"
	fi
}

# fetch_others gets the servers of other versions.
fetch_others() {
	if [ $# -gt 0 ]; then "${0%/*}/fetch-test-server.sh" "$@" || true; fi
}

case "${1:-}" in
-h | --help)
	usage
	exit 0
	;;
--plan)
	plan
	exit 0
	;;
-*)
	usage >&2
	exit 2
	;;
esac

lacking=$(missing | paste -s -d " " -)
if [ -n "$lacking" ]; then
	echo "test servers: missing: $lacking"
	if can_install; then
		install_packages
		lacking=$(missing | paste -s -d " " -)
	fi
	if [ -n "$lacking" ]; then
		echo "test servers: cannot install $lacking here" >&2
		advice
		exit 1
	fi
fi
echo "test servers: Redis, MariaDB, ZooKeeper and Chromium are installed"
fetch_others "$@" ${DB:-} ${KV:-}
