#!/usr/bin/env bash
# Makes sure that the Debian packages vitrine needs are there. Usage: tools/deps.sh [--install] build|test
# With --install, missing packages are installed when root or passwordless sudo allows it; otherwise the one apt line
# to run is printed and the exit status is 1.
set -u
install=0
[ "${1:-}" = --install ] && install=1 && shift
build="libopenblas-dev libdnnl-dev libjansson-dev libpng-dev libjpeg-dev libstb-dev libssl-dev libyaml-dev libzip-dev"
test="libcmocka-dev bats jq patch libxml2-utils python3 python3-numpy"
case "${1:-build}" in
    build) want="$build" ;;
    test) want="$build $test" ;;
    *) echo "usage: tools/deps.sh [--install] build|test" >&2; exit 2 ;;
esac
command -v dpkg-query >/dev/null || exit 0 # not Debian: the compiler will say what is missing
missing=""
for p in $want; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
line="apt-get install -y$missing"
as=""
[ "$(id -u)" = 0 ] || { sudo -n true 2>/dev/null && as="sudo -n"; }
if [ $install = 1 ] && { [ "$(id -u)" = 0 ] || [ -n "$as" ]; }; then
    echo "installing$missing" >&2
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    { $as apt-get update -q && $as env DEBIAN_FRONTEND=noninteractive apt-get install -y -q $missing; } >"$log" 2>&1 &&
        rm -f "$log" && exit 0
    cat "$log" >&2
    rm -f "$log"
    echo "vitrine: the installation failed" >&2
fi
[ "$(id -u)" = 0 ] || line="sudo $line"
echo "vitrine needs Debian packages that are not installed; run:  $line" >&2
exit 1
