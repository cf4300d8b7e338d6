#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Makes sure that the Debian packages vitrine needs are there. Usage: [CC=COMPILER] tools/deps.sh [--install] build|test|browser|mpi|python
# With --install, missing packages are installed when root or passwordless sudo allows it; otherwise the one apt line
# to run is printed and the exit status is 1. A compiler for another machine (CC=aarch64-linux-gnu-gcc) asks for that
# machine's libraries, and for qemu to run what it makes.
set -u
install=0
[ "${1:-}" = --install ] && install=1 && shift
command -v dpkg-query >/dev/null || exit 0 # not Debian: the compiler will say what is missing
native=$(dpkg --print-architecture)
compiler=${CC:-gcc}
case ${compiler##*/} in
    aarch64-linux-gnu-*) arch=arm64 compile="gcc-aarch64-linux-gnu libc6-dev-arm64-cross" run=qemu-user ;;
    *) arch=$native ;;
esac
if [ "$arch" = "$native" ]; then # any compiler that is there will do
    command -v "${compiler%% *}" >/dev/null && compile=libc6-dev || compile="gcc libc6-dev"
    of="" run=""
else
    of=":$arch"
fi
library="libopenblas-dev libdnnl-dev libjansson-dev libpng-dev libjpeg-dev libssl-dev libyaml-dev libzip-dev zlib1g-dev"
want="$compile"
for p in $library; do want="$want $p$of"; done
browser="chromium python3" # opens pages in tests/cli/pages.bats and tools/picture.sh; both say so where it is missing
case "${1:-build}" in
    build) ;;
    test) want="$want $run libcmocka-dev$of bats jq patch procps libxml2-utils python3 python3-numpy python3-jsonschema pkg-config" ;;
    browser) want="$browser" ;;
    mpi) want="libopenmpi-dev$of openmpi-bin" ;; # vitrine-mpi and tests/cli/ranks.bats, which says so where it is missing
    python) want="$want patchelf python3-setuptools python3-wheel mypy" ;; # make wheel, and the check of the package's types
    *) echo "usage: tools/deps.sh [--install] build|test|browser|mpi|python" >&2; exit 2 ;;
esac
missing=""
for p in $want; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
line="apt-get install -y --no-install-recommends$missing"
[ -z "$of" ] || dpkg --print-foreign-architectures | grep -qx "$arch" || line="dpkg --add-architecture $arch && apt-get update && $line"
as=""
[ "$(id -u)" = 0 ] || { sudo -n true 2>/dev/null && as="sudo -n"; }
if [ $install = 1 ] && { [ "$(id -u)" = 0 ] || [ -n "$as" ]; }; then
    echo "installing$missing" >&2
    log=$(mktemp)
    { [ -z "$of" ] || $as dpkg --add-architecture "$arch"; } && $as apt-get update -q >"$log" 2>&1 &&
        $as env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >>"$log" 2>&1 &&
        rm -f "$log" && exit 0
    cat "$log" >&2
    rm -f "$log"
    echo "vitrine: the installation failed" >&2
fi
[ "$(id -u)" = 0 ] || line="sudo sh -c '$line'"
echo "vitrine needs Debian packages that are not installed; run:  $line" >&2
exit 1
