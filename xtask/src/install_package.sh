# Installs the package of Debian or Ubuntu that $1 names, and leaves no service behind. Runs as root.
#
# Servers of databases start on their default ports and have themselves started at every boot. The tests want
# the programs only, and a developer may have something else on these ports. Packages ask
# /usr/sbin/policy-rc.d before they start anything, and 101 is its word for "not allowed"; most
# container images have such a file, and one that is there is left alone.
set -eu
export DEBIAN_FRONTEND=noninteractive

policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

# One of several sources may be out of order without being the one that is needed.
apt-get update || true
# A package may conflict with one that a developer has, as mariadb-server does with mysql-server.
apt-get install --yes --no-remove --no-install-recommends "$1"

case "$1" in
redis-server | postgresql | pgbouncer) service=$1 ;;
mariadb-server) service=mariadb ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
    systemctl disable --quiet "$service.service"
fi
