#!/bin/sh
# SPDX-License-Identifier: MIT
# The Debian packages, tried where nothing else is: builds them from the last commit, asks lintian, installs them into a
# bare Debian (debootstrap, minbase) without a compiler, and runs the command, the examples and the Python view there.
# Usage (as root, with a network): tools/package.sh FOLDER [SUITE]   FOLDER is made, gets the packages; SUITE: bookworm
set -eu
[ $# -ge 1 ] && [ ! -e "$1" ] || { echo "usage: tools/package.sh FOLDER [SUITE], FOLDER not being there" >&2; exit 2; }
for p in debootstrap dpkg-buildpackage dh lintian; do
    command -v $p >/dev/null || { echo "tools/package.sh: $p is not here (apt-get install debootstrap debhelper dh-python dpkg-dev lintian)" >&2; exit 2; }
done
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
to=$(cd "$1" && pwd)
suite=${2:-bookworm}
git -C "$here" archive --prefix=vitrine-0.1.0/ HEAD | tar -x -C "$to"
(cd "$to/vitrine-0.1.0" && dpkg-buildpackage -us -uc -b) >"$to/build.log" 2>&1 || { tail -n 20 "$to/build.log" >&2; exit 1; }
lintian --fail-on error,warning "$to"/*.changes
echo "built, lintian finds neither error nor warning"
# the examples, linked against what the packages hold
mkdir "$to/unpacked" "$to/examples"
for p in libvitrine0 libvitrine-dev; do dpkg -x "$to"/${p}_*.deb "$to/unpacked"; done
lib=$(dirname "$(find "$to/unpacked" -name libvitrine.a)")
for x in "$here"/examples/*.c; do
    gcc -std=c11 -O2 "$x" -I"$to/unpacked/usr/include" -L"$lib" -lvitrine -lm -o "$to/examples/$(basename "$x" .c)"
done
debootstrap --variant=minbase "$suite" "$to/root" >"$to/debootstrap.log" 2>&1 || { tail "$to/debootstrap.log" >&2; exit 1; }
cp -r "$to"/*.deb "$to/examples" "$here/weights/shapes10-vit" "$here/datasets/shapes10" "$to/root/srv"
cat >"$to/root/srv/try.sh" <<'END'
set -eux
cd /srv
rm -f ./*dbgsym*
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ./vitrine_*.deb ./libvitrine0_*.deb ./python3-vitrine_*.deb
! command -v gcc
vitrine --version
vitrine eval shapes10-vit --data shapes10 --images 0:20 --eps 4/255 --attack pgd --attack autoattack --out run
vitrine verify run
grep -o '"compiler":"[^"]*"' run/ledger.jsonl
vitrine train /usr/share/vitrine/recipes/shapes10_plain.yaml --data shapes10 --max-steps 2 --out trained
for level in x86-64-v2 x86-64-v3 x86-64-v4; do VITRINE_LEVEL=$level vitrine info shapes10-vit | head -n 1 || true; done
examples/attack_one shapes10-vit shapes10/test_batch.bin 2
examples/robust_accuracy shapes10-vit shapes10 0:20
examples/own_classifier
python3 -c 'import numpy as np, vitrine; m = vitrine.load("shapes10-vit"); print(m, m.logits(np.zeros((1, 3, 32, 32), np.float32)).argmax())'
zcat /usr/share/man/man1/vitrine-eval.1.gz | head -n 1
DEBIAN_FRONTEND=noninteractive apt-get purge -y -qq vitrine libvitrine0 python3-vitrine
[ ! -e /usr/share/vitrine ] && [ ! -e /usr/libexec/vitrine ]
END
cp /etc/resolv.conf "$to/root/etc/"
mount --bind /proc "$to/root/proc"
status=0
chroot "$to/root" sh /srv/try.sh >"$to/try.log" 2>&1 || status=$?
umount "$to/root/proc"
[ $status = 0 ] || { tail -n 30 "$to/try.log" >&2; exit 1; }
echo "installed into a bare $suite, run there, removed: $to/try.log"
