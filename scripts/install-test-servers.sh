#!/bin/sh
# Installs the servers the tests start for themselves; see --help.
set -eu

packages='mariadb-server redis-server'
policy=/usr/sbin/policy-rc.d
our_policy=

# Servers often lie outside the PATH of an ordinary user. The same places are
# searched by scripts/testserver/binaries.go.
PATH="$PATH:/usr/sbin:/usr/local/sbin:/usr/local/bin:/usr/bin:/usr/libexec:/usr/lib/mysql:/usr/lib/mariadb:/usr/local/mysql/bin:/opt/homebrew/bin:/opt/homebrew/sbin"

usage() {
	cat <<'TEXT'
usage: scripts/install-test-servers.sh [--help]

Makes sure that Redis and MariaDB, which the tests run as private servers on
free ports, are installed. Sentinel is part of redis-server.

  nothing missing       prints one line and ends
  Debian, Ubuntu        installs the missing packages with apt-get, as root or
                        with a sudo that asks for no password; the services of
                        the packages are not started
  anything else         prints what to install and ends with status 1
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
}

advice() {
	cat >&2 <<TEXT
Please install MariaDB (server and client) and Redis 7 or newer:
  Debian, Ubuntu   sudo apt-get install --no-install-recommends $packages
  Fedora           sudo dnf install mariadb-server redis    (or: valkey-compat-redis)
  macOS            brew install mariadb redis
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

install_packages() {
	trap allow_services EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	echo "test servers: 1/2 apt-get update"
	apt update
	echo "test servers: 2/2 apt-get install $packages"
	forbid_services
	# shellcheck disable=SC2086 # a list of words
	apt install -y --no-install-recommends $packages
	allow_services
	if [ -d /run/systemd/system ]; then
		echo "test servers: the services were not started now; to keep them off after a reboot:"
		echo "  sudo systemctl disable mariadb redis-server"
	fi
}

case "${1:-}" in
'') ;;
-h | --help)
	usage
	exit 0
	;;
*)
	usage >&2
	exit 2
	;;
esac

lacking=$(missing | paste -s -d " " -)
if [ -z "$lacking" ]; then
	echo "test servers: Redis and MariaDB are installed"
	exit 0
fi
echo "test servers: missing: $lacking"
if ! can_install; then
	advice
	exit 1
fi
install_packages
lacking=$(missing | paste -s -d " " -)
if [ -n "$lacking" ]; then
	echo "test servers: still missing after the installation: $lacking" >&2
	advice
	exit 1
fi
echo "test servers: Redis and MariaDB are installed"
