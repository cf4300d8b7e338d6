#!/bin/sh
# SPDX-License-Identifier: MIT
# A wheel (make wheel), tried where nothing else is: in a bare Debian (debootstrap, minbase) with python3-venv alone it is
# installed and the command runs; then with Debian's numpy too, where every line of docs/python.md runs; then it is removed.
# Usage (as root, with a network): tools/wheel_try.sh WHEEL FOLDER [SUITE ...]   FOLDER is made; SUITE: bookworm trixie
# The bare system is kept as SUITE-venv.tar in $FRESH, as tools/fresh.sh keeps its; delete it to get the suite of the day.
set -eu
[ $# -ge 2 ] && [ -f "$1" ] && [ ! -e "$2" ] || { echo "usage: tools/wheel_try.sh WHEEL FOLDER [SUITE ...], FOLDER not being there" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "tools/wheel_try.sh: debootstrap is not here (apt-get install debootstrap)" >&2; exit 2; }
here=$(cd "$(dirname "$0")/.." && pwd)
wheel=$1
mkdir -p "$2"
to=$(cd "$2" && pwd)
shift 2
[ $# -gt 0 ] || set -- bookworm trixie
store=${FRESH:-/var/tmp/vitrine-fresh}
mkdir -p "$store"
cat >"$to/try.sh" <<'END'
set -eux
cd /srv/here
never() { if "$@"; then echo "this must fail: $*"; exit 1; fi; }
wheel=$(echo vitrine-*.whl)
never command -v gcc
never grep -E 'libopenblas|libdnnl|libjansson|libgomp|libgfortran' /etc/ld.so.cache
# the command: Python alone
python3 -m venv /srv/alone
/srv/alone/bin/pip install --no-index --no-deps "$wheel"
PATH=/srv/alone/bin:$PATH
vitrine --help
vitrine --version
for level in x86-64-v2 x86-64-v3 x86-64-v4; do VITRINE_LEVEL=$level vitrine info weights/shapes10-vit | head -n 1 || true; done
vitrine eval weights/shapes10-vit --data datasets/shapes10 --images 0:20 --eps 4/255 --attack pgd --attack square:queries=100 --out run
vitrine verify run
vitrine train /srv/alone/share/vitrine/recipes/shapes10_plain.yaml --data datasets/shapes10 --max-steps 2 --out trained
never /srv/alone/bin/pip install --no-index --force-reinstall "$wheel" # it asks for numpy
# the package: with numpy, as Debian has it
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-numpy
python3 -m venv --system-site-packages /srv/with
/srv/with/bin/pip install --no-index "$wheel"
/srv/with/bin/python -m doctest docs/python.md
/srv/with/bin/python - <<'PY'
import numpy, platform, vitrine
at = [line.split()[-1] for line in open("/proc/self/maps") if ".so" in line]
ours = sorted({p for p in at if "/vitrine/lib/" in p})
assert vitrine.__file__.startswith("/srv/with/") and any("libvitrine.so.0" in p for p in ours), ours
assert not [p for p in at if "openblas" in p and p not in ours], at
which = [p for p in ours if p.endswith("libvitrine.so.0")][0].split("/")[-2]
print("TRIED: glibc %s, Python %s, numpy %s, the library of %s" % (platform.libc_ver()[1], platform.python_version(), numpy.__version__, which.replace("lib", "x86-64-v2")))
PY
/srv/with/bin/pip uninstall -y vitrine
[ -z "$(find /srv/with -name '*vitrine*' ! -type d)" ] # pip leaves folders
END
for suite; do
    root=$to/$suite
    if [ ! -f "$store/$suite-venv.tar" ]; then
        debootstrap --variant=minbase --include=python3-venv "$suite" "$to/new" >"$to/$suite.debootstrap.log" 2>&1 ||
            { tail "$to/$suite.debootstrap.log" >&2; exit 1; }
        tar -C "$to/new" -cf "$store/$suite-venv.new" . && mv "$store/$suite-venv.new" "$store/$suite-venv.tar"
        rm -rf "$to/new"
    fi
    mkdir "$root"
    tar -C "$root" -xf "$store/$suite-venv.tar"
    mkdir -p "$root/srv/here/weights" "$root/srv/here/datasets" "$root/srv/here/docs"
    cp "$wheel" "$to/try.sh" "$root/srv/here"
    cp -r "$here/weights/shapes10-vit" "$root/srv/here/weights"
    cp -r "$here/datasets/shapes10" "$root/srv/here/datasets"
    cp "$here/docs/python.md" "$root/srv/here/docs"
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    apt-config dump | grep -iE '^Acquire::[a-z]+::Proxy' >"$root/etc/apt/apt.conf.d/90proxy" || true
    # mounts and processes end with their namespace, however this ends
    unshare --mount --propagation slave --pid --fork --kill-child sh -ec 'mount -t proc proc "$1/proc"; mount --rbind /dev "$1/dev"
        exec chroot "$1" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb sh /srv/here/try.sh' \
        sh "$root" >"$to/$suite.log" 2>&1 || { tail -n 30 "$to/$suite.log" >&2; exit 1; }
    echo "$suite: $(sed -n 's/^TRIED: //p' "$to/$suite.log"): installed, $(grep -c '^    >>> ' "$here/docs/python.md") lines of docs/python.md hold, removed: $to/$suite.log"
done
echo "$(basename "$wheel"), $(du -m "$wheel" | cut -f1) MB: works in a bare $(echo "$*" | sed 's/ / and a bare /g')"
