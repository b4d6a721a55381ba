#!/bin/sh
# Install the Debian packages that some tests make use of, where that is possible.
#
# Needs root and apt; without them, or when the package server can't be reached, it says which
# packages are missing and succeeds all the same: the tests that want them are skipped, visibly.
#
#   tools/debian_packages.sh            install what is missing
#   tools/debian_packages.sh --prove    and what the proof programme makes use of
#   tools/debian_packages.sh --list     the packages
set -u

# package and the program, or the file, that shows it is there
WANTED="pgbouncer:pgbouncer mariadb-server:mariadbd chromium:chromium postgresql-15-plpgsql-check:/usr/lib/postgresql/15/lib/plpgsql_check.so"
[ "${1:-}" = "--prove" ] && WANTED="$WANTED xfsprogs:mkfs.xfs e2fsprogs:mkfs.ext4 faketime:faketime"

PATH="$PATH:/usr/sbin:/usr/local/sbin"

missing=""
for entry in $WANTED; do
    package="${entry%%:*}"
    [ "${1:-}" = "--list" ] && echo "$package"
    command -v "${entry##*:}" > /dev/null 2>&1 || [ -f "${entry##*:}" ] || missing="$missing $package"
done
[ "${1:-}" = "--list" ] && exit 0
[ -z "$missing" ] && exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null 2>&1; then
    echo "not installed, so their tests are skipped:$missing" >&2
    exit 0
fi

echo "installing$missing"
export DEBIAN_FRONTEND=noninteractive
# Our tests start their own servers; the packages' services stay off.
export RUNLEVEL=1

install() {
    # shellcheck disable=SC2086 - a list of names
    timeout 300 apt-get install -qq -y --no-install-recommends $missing > /dev/null 2>&1 < /dev/null
}

# The package lists are often there already; refreshing them takes longest.
install || { timeout 120 apt-get update -qq > /dev/null 2>&1 < /dev/null && install; } \
    || echo "apt could not install them, so their tests are skipped:$missing" >&2
exit 0
