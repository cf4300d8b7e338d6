# SPDX-License-Identifier: MIT
# The library from outside: only what is installed is used, and the examples are built and run as their comments say.
load helpers

# Installs into ./there, as a package does, and points compiler and loader at it.
installed() {
    "$ROOT/tools/install.sh" --library "$(library)" --libdir "$PWD/there/lib" --private "$(make -s -C "$ROOT" private-libs)" "$VITRINE" "$PWD/there" ""
    export PKG_CONFIG_PATH=$PWD/there/lib/pkgconfig LD_LIBRARY_PATH=$PWD/there/lib
    cp "$ROOT"/examples/*.c .
    ln -s "$ROOT/weights" "$ROOT/datasets" .
}

# built NAME [FLAGS]: as an outside Makefile would.
built() { gcc -std=c11 -Wall -Wextra -Werror -pedantic "${@:2}" "$1.c" -o "$1" $(pkg-config --cflags --libs vitrine) -lm; }

@test "the shared library shows vitrine.h and nothing else, and needs no path" {
    here nm
    nm -D --defined-only "$(library)/libvitrine.so.0" | sed 's/.* //; s/@.*//' | grep -v '^VITRINE_0$' | sort >shown
    sed -n 's/^VITRINE_API .*[ *]\(vitrine_[a-z0-9_]*\)(.*/\1/p' "$ROOT/include/vitrine.h" | sort >declared
    diff declared shown
    [ "$(wc -l <declared)" -ge 24 ]
    here readelf
    readelf -d "$(library)/libvitrine.so.0" >dynamic
    grep -q 'SONAME.*\[libvitrine.so.0\]' dynamic
    never grep -E 'RPATH|RUNPATH' dynamic
}

@test "the header stands alone, in C11 and in C++" {
    here g++
    mkdir include && cp "$ROOT/include/vitrine.h" include
    printf '#include <vitrine.h>\n#include <vitrine.h>\ntypedef double real;\nint main(void) { return vitrine_version() == 0; }\n' >user.c
    cp user.c user.cc
    gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude -c user.c
    g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -Iinclude user.cc "$(library)/libvitrine.so.0" -o user
    LD_LIBRARY_PATH=$(library) ./user || { cp "$(library)/libvitrine.so.0" . && LD_LIBRARY_PATH=. ./user; }
}

@test "the examples, built against the installed files, under the address sanitizer" {
    here pkg-config
    installed
    pkg-config --exists vitrine
    [ "$(pkg-config --modversion vitrine)" = "$("$VITRINE" --version | sed 's/vitrine //')" ]
    for x in attack_one robust_accuracy own_classifier; do
        [ "$(wc -l <$x.c)" -lt 60 ]
        built $x -g -fsanitize=address,undefined -fno-sanitize-recover=all
    done
    export ASAN_OPTIONS=detect_leaks=1 LSAN_OPTIONS=suppressions=$PWD/none:print_suppressions=0
    printf 'leak:libgomp\nleak:libdnnl\nleak:libopenblas\n' >none
    run ./attack_one weights/shapes10-vit datasets/shapes10/test_batch.bin 2 pgd:steps=20
    [ "$status" = 0 ] || fail "$output"
    "$VITRINE" eval weights/shapes10-vit --data datasets/shapes10 --images 2:3 --attack pgd:steps=20 --eps 4/255 --out run --no-selftest >/dev/null
    margin=$(jq -r 'select(.entry==1) | .margin' run/ledger.jsonl | tail -n 1)
    grep -q "margin $(printf %.4f "$margin")" <<<"$output" || fail "$output" "the command's margin is $margin"
    run ./robust_accuracy weights/shapes10-vit datasets/shapes10 0:20
    [ "$status" = 0 ] || fail "$output"
    "$VITRINE" eval weights/shapes10-vit --data datasets/shapes10 --images 0:20 --attack apgd-ce:steps=20 --attack square:queries=200 --eps 4/255 --json --no-selftest >json
    grep -qx "clean    $(jq .clean.correct json) of 20" <<<"$output" || fail "$output"
    grep -qx "apgd-ce  $(jq '.attacks[0].robust' json) of 20" <<<"$output" || fail "$output"
    grep -qx "square   $(jq '.attacks[1].robust' json) of 20" <<<"$output" || fail "$output"
    run ./own_classifier
    [ "$status" = 0 ] || fail "$output"
    grep -qx 'autoattack   0 of 4 stand' <<<"$output" || fail "$output"
    # what goes wrong is a sentence of the example's
    run ./attack_one nowhere datasets/shapes10/test_batch.bin 2
    [ "$status" = 1 ]
    grep -q '^attack_one: nowhere' <<<"$output" || fail "$output"
    run ./robust_accuracy weights/shapes10-vit datasets/shapes10 5:5
    [ "$status" = 1 ]
    grep -q '^robust_accuracy: ' <<<"$output" || fail "$output"
}

@test "an outside Makefile with pkg-config links it, and libvitrine.a too" {
    here pkg-config
    installed
    printf 'attack_one: attack_one.c\n\t$(CC) $< -o $@ $(shell pkg-config --cflags --libs vitrine) -lm\n' >Makefile
    make -s
    ./attack_one weights/shapes10-vit datasets/shapes10/test_batch.bin 2 fgsm >shared.txt
    rm there/lib/libvitrine.so*
    gcc own_classifier.c -o own $(pkg-config --cflags --static --libs vitrine)
    ./own | grep -q 'fgsm         0 of 4 stand'
}

@test "the library and the command go on with each other's runs, to the same bytes" {
    here pkg-config
    installed
    cat >both.c <<'END'
#include <stdio.h>
#include <vitrine.h>
int main(int argc, char **argv) {
    vitrine_err e;
    vitrine_run *r;
    if (vitrine_evaluate(&r, (const char *const *)argv + 1, NULL, &e)) return fprintf(stderr, "%s\n", e.text), argc > 0;
    vitrine_run_close(r);
    return 0;
}
END
    built both
    same="--data datasets/shapes10 --attack pgd:steps=4 --attack fgsm --eps 4/255 --seed 5"
    options="weights=weights/shapes10-vit data=datasets/shapes10 attack=pgd:steps=4 attack=fgsm eps=4/255 seed=5"
    # the bytes are those of the kernels: both must have the same ones
    "$VITRINE" eval weights/shapes10-vit $same --images 0:16 --out whole --no-selftest >/dev/null
    core=$(jq -r '.kernels // .blas' whole/run.json | sed -n 's/^OpenBLAS \([A-Za-z0-9]*\),.*/\1/p')
    export OPENBLAS_NUM_THREADS=1 OPENBLAS_CORETYPE=$core
    ./both $options images=0:8 out=half
    "$VITRINE" eval weights/shapes10-vit $same --images 0:16 --out half --resume --no-selftest >/dev/null
    "$VITRINE" eval weights/shapes10-vit $same --images 0:8 --out other --no-selftest >/dev/null
    ./both $options images=0:16 out=other resume
    for f in ledger.jsonl adv.bin results.json table.md; do
        cmp whole/$f half/$f
        cmp whole/$f other/$f
    done
    "$VITRINE" verify other --weights weights/shapes10-vit --data datasets/shapes10 >/dev/null
}

@test "tools/abi.sh says what would break a program" {
    here abidiff
    so=$(library)/libvitrine.so.0
    "$ROOT/tools/abi.sh" "$so" "$so"
    cat >old.c <<'END'
int vitrine_a(int x) { return x; }
int vitrine_b(int x) { return x; }
END
    sed 1d old.c >gone.c
    sed 's/int vitrine_a(int x)/long vitrine_a(long x, int y)/; s/return x/return x + 0/' old.c >changed.c
    { cat old.c; echo 'int vitrine_c(void) { return 1; }'; } >more.c
    for x in old gone changed more; do gcc -g -shared -fPIC -Wl,-soname,libx.so.0 $x.c -o $x.so; done
    "$ROOT/tools/abi.sh" old.so more.so
    run "$ROOT/tools/abi.sh" old.so gone.so
    [ "$status" = 1 ]
    run "$ROOT/tools/abi.sh" old.so nowhere.so
    [ "$status" = 2 ]
}
