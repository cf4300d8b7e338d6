# SPDX-License-Identifier: MIT
# make wheel: what a wheel holds, that nothing of it is looked for elsewhere, and that it runs where it is unpacked.
# tools/wheel_try.sh installs one into bare systems.
load helpers

# One wheel for all tests, of the program under test for every level, not compressed; unpacked, with its modes, in ./site.
setup_file() {
    command -v patchelf >/dev/null && /usr/bin/python3 -c 'import setuptools, wheel' 2>/dev/null || return 0
    local folder
    folder=$(dirname "$VITRINE")
    [ -e "$folder/release/libvitrine.so.0" ] && [ "$(uname -m)" = x86_64 ] || return 0
    cd "$BATS_FILE_TMPDIR"
    "$ROOT/tools/wheel.py" --stored out "$folder" x86-64-v3="$folder" >said
    /usr/bin/python3 - <<'END'
import glob, os, zipfile
with zipfile.ZipFile(glob.glob("out/*.whl")[0]) as z:
    for i in z.infolist():
        os.chmod(z.extract(i, "site"), i.external_attr >> 16)
END
}
setup() {
    mkdir "$BATS_TEST_TMPDIR/here" && cd "$BATS_TEST_TMPDIR/here"
    site=$BATS_FILE_TMPDIR/site
    info=$site/vitrine-0.1.0.dist-info
}
made() { [ -d "$site" ] || skip "no wheel is made without patchelf, setuptools and a release build on x86-64"; }

# objects: every program and library of the wheel.
objects() { find "$site/vitrine" -type f ! -name '*.py*' ! -name py.typed; }

@test "a wheel holds the package, the command, what make install shares, and nothing else" {
    made
    (cd "$site" && find . -type f | sed 's/-[0-9a-f]\{8\}\.so/.so/; s|^\./||' | grep -v dist-info/c | LC_ALL=C sort) >held
    share=vitrine-0.1.0.data/data/share
    {
        (cd "$ROOT/python" && ls vitrine/*.py vitrine/py.typed vitrine_oracle.py)
        (cd "$ROOT" && find recipes -type f | sed "s|^|$share/vitrine/|")
        echo $share/bash-completion/completions/vitrine
        echo $share/zsh/site-functions/_vitrine
        echo $share/fish/vendor_completions.d/vitrine.fish
        echo $share/man/man1/vitrine.1
        echo $share/man/man5/vitrine-recipe.5
        "$VITRINE" help | sed -n "/^Commands:/,/^Examples:/s|^  \([a-z][a-z]*\)  *[a-z].*|$share/man/man1/vitrine-\1.1|p" | grep -v -e -help.1
        printf 'vitrine/%s\n' bin/vitrine libexec/vitrine/x86-64-v3/vitrine lib/libvitrine-best.so lib/libvitrine.so.0 \
            lib/glibc-hwcaps/x86-64-v3/libvitrine.so.0
        echo vitrine-0.1.0.data/scripts/vitrine
        printf 'vitrine-0.1.0.dist-info/%s\n' METADATA WHEEL RECORD top_level.txt
    } | LC_ALL=C sort >wanted
    # newer setuptools lay licences one folder lower
    sed -i 's|dist-info/licenses/|dist-info/|; s|dist-info/licences/|dist-info/|' held
    LC_ALL=C comm -13 held wanted >missing
    [ ! -s missing ] || fail "missing: $(cat missing)"
    LC_ALL=C comm -23 held wanted | grep -vE '^vitrine/lib/lib[A-Za-z0-9-]*\.so[.0-9]*$|dist-info/(LICENSE|LIBRARIES)$|dist-info/c(opyright|ommon)\.' >more || true
    [ ! -s more ] || fail "beyond: $(cat more)"
    grep -q openblas held
    [ -x "$site/vitrine/bin/vitrine" ]
    [ -x "$site/vitrine-0.1.0.data/scripts/vitrine" ]
    [ ! -x "$site/vitrine/_run.py" ]
    grep -qx 'Root-Is-Purelib: false' "$info/WHEEL"
    grep -q '^Requires-Dist: numpy' "$info/METADATA"
    grep -qx "Version: $("$VITRINE" --version | sed 's/vitrine //')" "$info/METADATA"
}

@test "all libraries are found in the wheel or are every system's; each has its licence; the platform is what they need" {
    made
    for o in $(objects); do
        readelf -lW "$o" | grep -Eq 'GNU_STACK.* RW  ' || fail "$o wants an executable stack" || return 1 # glibc 2.41 refuses it
        for n in $(readelf -d "$o" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
            case $n in
            libc.so.6 | libm.so.6 | libgcc_s.so.1 | libstdc++.so.6 | ld-linux-x86-64.so.2) continue ;;
            esac
            way=$(readelf -d "$o" | sed -n 's/.*(RUNPATH).*\[\$ORIGIN\(.*\)\]/\1/p')
            [ -e "$(dirname "$o")$way/$n" ] || fail "${o#"$site"} needs $n, which is not in \$ORIGIN$way" || return 1
        done
    done
    list=$(find "$info" -name LIBRARIES)
    for l in "$site"/vitrine/lib/*-????????.so*; do
        grep -q "^${l##*/}	" "$list" || fail "LIBRARIES lacks ${l##*/}" || return 1
        [ "$(readelf -d "$l" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')" = "${l##*/}" ]
    done
    sed -n 's/^lib[^	]*	\([^	]*\)	.*/\1/p' "$list" >packages
    [ "$(wc -l <packages)" -ge 10 ]
    while read -r p; do [ -s "$(dirname "$list")/copyright.$p" ] || fail "no licence of $p" || return 1; done <packages
    [ -s "$(dirname "$list")/common.GPL-3" ]
    cmp "$ROOT/LICENSE" "$(dirname "$list")/LICENSE"
    most=$(objects | xargs readelf -V | sed -n 's/.*Name: GLIBC_2\.\([0-9]*\) .*/\1/p' | sort -n | tail -n 1)
    said=$(sed -n 's/^Tag: py3-none-manylinux_2_\([0-9]*\)_x86_64$/\1/p' "$info/WHEEL")
    [ "$said" -ge "$most" ] && [ "$said" -le "$(getconf GNU_LIBC_VERSION | sed 's/.*\.//')" ] || fail "glibc 2.$said is said, 2.$most needed"
}

@test "the platform of a file that asks for little, for glibc 2.35, and for what no system has" {
    here patchelf
    platform() { /usr/bin/python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); import wheel; print(wheel.platform_of(sys.argv[2:]))' "$ROOT/tools" "$@"; }
    echo 'int none(void) { return 1; }' | gcc -shared -nostdlib -x c - -o none.so
    [ "$(platform ./none.so)" = "manylinux_2_17_$(uname -m)" ]
    echo 'void f(void) {}' >f.c
    runtime() { # KIND_VERSION: a library that asks libstdc++.so.6 for it
        echo "$1 { global: f; };" >versions
        gcc -shared -nostdlib -Wl,-soname,libstdc++.so.6,--version-script=versions f.c -o libstdc++.so.6
        echo 'void f(void); void g(void) { f(); }' | gcc -shared -fPIC -nostdlib -x c - -x none ./libstdc++.so.6 -o asks.so
    }
    runtime GLIBC_2.35
    [ "$(platform ./none.so ./asks.so)" = "manylinux_2_35_$(uname -m)" ]
    runtime GLIBCXX_3.4.29
    [ "$(platform ./asks.so)" = "manylinux_2_34_$(uname -m)" ]
    runtime CXXABI_1.3.15
    [ "$(platform ./asks.so)" = "manylinux_2_39_$(uname -m)" ]
    runtime GLIBCXX_3.4.99
    run platform ./asks.so
    [ "$status" != 0 ]
    grep -qF "./asks.so needs GLIBCXX_3.4.99: no system" <<<"$output"
}

@test "an unpacked wheel runs: the command, the package, the best library for this processor" {
    made
    ln -s "$ROOT/weights" "$ROOT/datasets" .
    "$site/vitrine/bin/vitrine" eval weights/shapes10-vit --data datasets/shapes10 --images 0:5 --eps 4/255 --attack fgsm --no-selftest --out run >/dev/null
    PYTHONPATH=$site /usr/bin/python3 "$site/vitrine-0.1.0.data/scripts/vitrine" --version >version
    [ "$(cat version)" = "$("$VITRINE" --version)" ]
    run env PYTHONPATH="$ROOT/python" /usr/bin/python3 "$site/vitrine-0.1.0.data/scripts/vitrine" --version
    [ "$status" = 1 ]
    grep -qF "without a command in it" <<<"$output"
    cat >script.py <<'END'
import os, sys, numpy as np, vitrine
m = vitrine.load("weights/shapes10-vit")
z = m.logits(np.zeros((1, 3, 32, 32), np.float32))
with open("/proc/self/maps") as f:
    at = {os.path.relpath(line.split()[-1], sys.argv[1]) for line in f if ".so" in line}
assert z.shape == (1, 10) and "vitrine/lib/libvitrine-best.so" in at, at
print(*[p for p in at if p.endswith("/libvitrine.so.0")])
assert any(p.startswith("vitrine/lib/libopenblas-") for p in at) and any(p.startswith("vitrine/lib/libdnnl-") for p in at), at
END
    here=lib
    if /lib64/ld-linux-x86-64.so.2 --help | grep -q 'x86-64-v3 (supported'; then here=lib/glibc-hwcaps/x86-64-v3; fi
    [ "$(env -u VITRINE_LIBRARY -u LD_LIBRARY_PATH PYTHONPATH="$site" /usr/bin/python3 script.py "$(realpath "$site")")" = vitrine/$here/libvitrine.so.0 ]
}

@test "a wheel of what is not there is refused in a sentence" {
    run "$ROOT/tools/wheel.py" out nowhere
    [ "$status" = 2 ]
    [ "$output" = "tools/wheel.py: nowhere/vitrine is not there: \`make all shared\` builds it" ]
    [ ! -e out ]
    run "$ROOT/tools/wheel.py" out
    [ "$status" = 2 ]
    grep -q "^tools/wheel.py: usage" <<<"$output"
    cp "$ROOT"/python/pyproject.toml "$ROOT"/python/setup.py .
    run /usr/bin/python3 -c 'from setuptools import build_meta; build_meta.build_wheel("out")'
    [ "$status" != 0 ]
    grep -qF "make wheel" <<<"$output"
}
