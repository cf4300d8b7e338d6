#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Does a bare Debian build and pass? Usage (as root): tools/fresh.sh [--mirror URL] SUITE [TARGET ...]
# A minimal system of SUITE (bookworm, trixie) with git and make is laid into a folder, a clone of HEAD beside it, and in
# a chroot there `make TARGET` is run for each TARGET (default: demo, then test). Prints exit status and seconds of each;
# exits 1 unless all are 0.
#   --mirror URL   of Debian's packages; else the one that this machine's apt has
#   FRESH=FOLDER   (environment) where systems go, 3 GB (default /var/tmp/vitrine-fresh). SUITE.tar is kept there, so that
#                  the next check of it begins sooner; delete it to get the suite of the day.
# Needs debootstrap, and a network for apt. Mounts and processes live in namespaces of their own and end with them, however
# this ends.
set -euo pipefail

die() { echo "tools/fresh.sh: $1" >&2; exit "${2:-1}"; }
usage() { sed -n '2s/.*Usage (as root): /usage: /p' "$0" >&2; exit 2; }

mirror=""
if [ "${1:-}" = --mirror ]; then mirror=${2:-} && shift 2 || usage; fi
suite=${1:-}
[[ $suite =~ ^[a-z]+$ ]] || usage
shift
[ $# -gt 0 ] || set -- demo test
[ "$(id -u)" = 0 ] || die "chroot needs root"
command -v debootstrap >/dev/null || die "debootstrap is not installed (apt-get install debootstrap)"
repo=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
store=${FRESH:-/var/tmp/vitrine-fresh}
mkdir -p "$store"

# the first place that apt has Debian's own packages from
[ -n "$mirror" ] || mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | sed -n 1p)
[ -n "$mirror" ] || die "apt knows no Debian mirror here; give one: --mirror URL"

work=$(mktemp -d "$store/$suite.XXXXXX")
child=""
tidy() { # unshare hears no softer signal; what it started ends with it
    if [ -n "$child" ]; then kill -KILL "$child" && wait "$child" || true; fi 2>/dev/null
    rm -rf --one-file-system "$work" || { sleep 1 && rm -rf --one-file-system "$work"; }
}
trap tidy EXIT
trap 'exit 130' INT TERM HUP

if [ ! -f "$store/$suite.tar" ]; then
    echo "== a minimal $suite"
    include=git,make
    case $mirror in https:*) include=$include,ca-certificates ;; esac
    debootstrap --variant=minbase --include=$include "$suite" "$work/root" "$mirror" >"$store/$suite.log" 2>&1 ||
        { tail -n 5 "$store/$suite.log" >&2; die "debootstrap failed; all it said is in $store/$suite.log"; }
    rm -f "$work"/root/var/cache/apt/archives/*.deb
    tar -C "$work/root" -cf "$work/tar" . && mv "$work/tar" "$store/$suite.tar"
else
    mkdir "$work/root" && tar -C "$work/root" -xf "$store/$suite.tar"
fi

# the network as this machine has it
cp -L /etc/resolv.conf /etc/hosts "$work/root/etc/"
apt-config dump | grep -iE '^Acquire::[a-z]+::Proxy' >"$work/root/etc/apt/apt.conf.d/90proxy" || true
git clone -q --no-hardlinks "$repo" "$work/root/vitrine"
echo "== $suite: $(git -C "$repo" log -1 --format='%h %s')"

# in the namespace: ROOT TARGET
inside='
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
exec chroot "$1" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
    sh -c "cd /vitrine && exec make $2"'
status=0 said=""
for target; do
    echo "== $suite: make $target"
    began=$SECONDS rc=0
    unshare --mount --propagation slave --pid --fork --kill-child sh -ec "$inside" sh "$work/root" "$target" &
    child=$! # behind, so that a signal to this script is heard at once
    wait "$child" || rc=$?
    child=""
    [ $rc = 0 ] || status=1
    said+="$suite: make $target: exit $rc, $((SECONDS - began)) s"$'\n'
done
printf %s "$said"
exit $status
