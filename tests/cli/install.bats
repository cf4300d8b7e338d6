# SPDX-License-Identifier: MIT
# Manual pages, completion and make install: that they name what the program takes, and land where they are looked for.
load helpers

# page [NAME]: a manual page.
page() { "$ROOT/tools/man.sh" "$VITRINE" "$@"; }

commands() { "$VITRINE" help | sed -n '/^Commands:/,/^Examples:/s/^  \([a-z]*\)  *[a-z].*/\1/p' | grep -vx help; }

# options COMMAND: its options as help prints them.
options() { "$VITRINE" help "$1" | sed -n '/^Examples:/q; s/^  \(--*[a-zA-Z0-9-]*\).*/\1/p'; }

@test "a manual page has every option of its command, and every key of a recipe" {
    for c in $(commands); do
        run page "$c"
        says ".Nm vitrine-$c" ".Sh SYNOPSIS" ".Sh EXIT STATUS" ".Sh EXAMPLES"
        for o in $(options "$c"); do
            grep -qE "^\.It Fl( Fl)? $(sed 's/^--*//; s/-/\\\\-/g' <<<"$o")( |$)" <<<"$output" || fail "the page of $c lacks $o"
        done
    done
    run page
    for c in $(commands); do says ".It Cm $c"; done
    run page recipe
    says ".It Cm attack.eps" ".It Cm epochs" ".It Cm msvp.lambda" "0.0001]"
    bad 2 "unknown command 'evil'; did you mean 'eval'?" -- help evil
}

@test "mandoc finds nothing wrong with any manual page" {
    here mandoc
    mkdir man1 man5
    for c in $(commands); do page "$c" >"man1/vitrine-$c.1"; done
    page >man1/vitrine.1
    page recipe >man5/vitrine-recipe.5
    mandoc -T lint -W all man?/* | grep -v 'referenced manual not found' >found || true
    [ ! -s found ] || fail "$(head found)"
    # what a reader sees: an option's dashes are those that a shell takes, examples are whole
    mandoc -T utf8 man1/vitrine-eval.1 | sed 's/.\x08//g' >page
    grep -q -- '--oracle-timeout S' page
    grep -q -- 'vitrine eval weights/shapes10-vit' page
    # an apostrophe or a full stop at the beginning of a line is text
    [ "$(mandoc -T utf8 man1/vitrine-eval.1 | sed 's/.\x08//g' | grep -c "borderline")" -ge 1 ]
}

# The scripts ask the program that is on the command line.
in_path() {
    mkdir bin
    ln -s "$VITRINE" bin/vitrine
    export PATH=$PWD/bin:$PATH
}

# offers WORDS...: what bash would offer for the last word, one a line.
offers() {
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    _vitrine
    printf '%s\n' "${COMPREPLY[@]}"
}

# offered TEXT WORDS...: TEXT is among them; lacking TEXT WORDS...: it is not.
offered() { offers "${@:2}" | grep -qxF -- "$1" || fail "'$1' is not offered for: ${*:2}"; }
lacking() { if offers "${@:2}" | grep -qxF -- "$1"; then fail "'$1' is offered for: ${*:2}"; fi; }

@test "bash completes commands, options, attacks, presets, wraps, recipe keys, files" {
    in_path
    "$VITRINE" completion bash >script
    bash -n script
    source ./script
    for c in $(commands) help --version; do offered "$c" vitrine ""; done
    for c in $(commands); do for o in $(options "$c"); do offered "$o" vitrine "$c" "-"; done; done
    for a in $("$VITRINE" list attacks | awk '/^under/{exit} /^[a-z]/{print $1}'); do offered "$a" vitrine eval "$W" --attack ""; done
    offered fgsm+apgd-ce vitrine eval --attack fgsm+apgd-
    offered pgd,fmn vitrine curve --attacks pgd,fm
    lacking fgsm vitrine eval --attack ap
    offered pma vitrine eval --attack = p
    for w in $("$VITRINE" list wraps | awk '/^[a-z]/{print $1}'); do offered "$w" vitrine selftest --wrap ""; done
    offered specformer-vit-small vitrine new specf
    offered specformer-vit-small vitrine eval --preset ""
    for k in attack.eps= epochs= msvp.lambda= optimiser=; do offered "$k" vitrine train r.yaml --set ""; done
    lacking epochs= vitrine lab attgd --set "" # a lab has keys of its own
    offered jacobian vitrine analyze ""
    offered attgd vitrine lab ""
    offered l2 vitrine eval --norm ""
    offered least-likely vitrine eval --targets least
    [ -z "$(offers vitrine eval --eps "" | tr -d '\n')" ]
    mkdir folder "two words"
    touch file
    offered file vitrine eval fi
    offered "two words" vitrine eval two
    offered folder vitrine eval --out f
    lacking file vitrine eval --out f
    offered file vitrine eval --targets fi
    offered recipe vitrine help re
    bad 2 "'tcsh' is not one of bash, zsh, fish" -- completion tcsh
}

@test "fish completes the same" {
    here fish
    in_path
    "$VITRINE" completion fish >script
    fish -n script
    # asks LINE: what fish offers, without descriptions
    asks() { fish --no-config -c "source script; complete -C '$1'" | cut -f1; }
    for c in $(commands); do asks "vitrine " | grep -qx "$c" || fail "$c"; done
    asks "vitrine eval --att" | grep -qx -- --attack
    asks "vitrine eval --attack fgsm+apgd-" | grep -qx fgsm+apgd-ce
    asks "vitrine eval --attack=fgsm+apgd-" | grep -q 'fgsm+apgd-ce$'
    asks "vitrine train --set attack.e" | grep -qx attack.eps=
    asks "vitrine new specf" | grep -qx specformer-vit-small
    never grep -qx -- --attack <(asks "vitrine info --att")
    touch file
    asks "vitrine eval fi" | grep -qx file
}

@test "zsh completes the same" {
    here zsh
    in_path
    mkdir functions
    "$VITRINE" completion zsh >functions/_vitrine
    zsh -n functions/_vitrine
    cat >ask.zsh <<'Z'
zmodload zsh/zpty
zpty z 'TERM=dumb HOME=$PWD zsh -f -i'
zpty -w z 'PS1=rea""dy; fpath=($PWD/functions $fpath); autoload -Uz compinit && compinit -u -D; LISTMAX=9999; setopt no_beep; echo go""ne'
zpty -r -m z begun '*gone*ready*'
zpty -n -w z "$1"$'\t\t'
# the rest of the line is a comment: what was typed is not run, and the end of what is offered is known
zpty -n -w z $'\x15echo do""ne\n'
zpty -r -m z said '*done*'
print -r -- $said
zpty -d z
Z
    asks() { timeout 20 zsh -f ask.zsh "$1"; }
    asks "vitrine eval --at" | grep -q -- '--attack-at'
    asks "vitrine eval --attack fgsm+apgd-" | grep -q 'apgd-ce.*apgd-malt'
    asks "vitrine train --set attack.e" | grep -q 'attack\.eps='
    asks "vitrine new specformer-" | grep -q specformer-vit-small
    asks "vitrine co" | grep -q '^compare '
}

@test "make install puts everything below DESTDIR and PREFIX, and uninstall removes it" {
    grep -q '$(INSTALL) $(EXE) .$(PREFIX). .$(DESTDIR).' "$ROOT/Makefile"
    mkdir there
    "$ROOT/tools/install.sh" "$VITRINE" /usr "$PWD/there"
    cmp "$VITRINE" there/usr/bin/vitrine
    [ -x there/usr/bin/vitrine ]
    for c in $(commands); do cmp <(page "$c") "there/usr/share/man/man1/vitrine-$c.1"; done
    cmp <(page) there/usr/share/man/man1/vitrine.1
    cmp <(page recipe) there/usr/share/man/man5/vitrine-recipe.5
    cmp <("$VITRINE" completion bash) there/usr/share/bash-completion/completions/vitrine
    cmp <("$VITRINE" completion zsh) there/usr/share/zsh/site-functions/_vitrine
    cmp <("$VITRINE" completion fish) there/usr/share/fish/vendor_completions.d/vitrine.fish
    diff -r "$ROOT/recipes" there/usr/share/vitrine/recipes
    diff -r -x __pycache__ "$ROOT/python/vitrine" there/usr/share/vitrine/python/vitrine
    there/usr/bin/vitrine --version
    [ "$(find there -type f ! -perm 644 | wc -l)" = 1 ] # the command alone may be run
    touch there/usr/share/vitrine/mine
    # the program for several processes too, where it was made; it is removed by those who did not make it
    printf '#!/bin/sh\necho several\n' >several
    "$ROOT/tools/install.sh" --mpi several "$VITRINE" /usr "$PWD/there"
    [ "$(there/usr/bin/vitrine-mpi)" = several ]
    "$ROOT/tools/install.sh" --remove "$VITRINE" /usr "$PWD/there"
    [ "$(find there -type f)" = there/usr/share/vitrine/mine ]
    make -n -s -C "$ROOT" install MPI=1 DESTDIR="$PWD/there" >words
    grep -qE -- "--mpi [^ ]*/vitrine-mpi " words
    make -n -s -C "$ROOT" install DESTDIR="$PWD/there" >words
    never grep -q -- --mpi words
}

@test "an installation that cannot be made says why and puts no command there" {
    run "$ROOT/tools/install.sh" "$VITRINE" usr "$PWD/there"
    [ "$status" = 2 ]
    grep -qF "PREFIX 'usr' is not an absolute path" <<<"$output"
    printf '#!/bin/sh\n[ "$1" = help ] && [ $# = 1 ] && exec "%s" help\nexit 1\n' "$VITRINE" >broken
    chmod +x broken
    run "$ROOT/tools/install.sh" ./broken /usr "$PWD/there"
    [ "$status" != 0 ]
    [ ! -e there/usr/bin/vitrine ]
}

@test "a package's command goes on as the best build beside it, or as the one that is told" {
    [ "$(uname -m)" = x86_64 ] || skip "there are levels of x86-64 alone"
    cat >main.c <<'END'
#include <stdio.h>
#include "cli/early.c"
bool vt_has_room(size_t bytes) { return bytes > 0; }
int main(int argc, char **argv) {
    return printf("base %s\n", argc > 1 ? argv[1] : "") < 0;
}
END
    mkdir bin
    gcc -std=c11 -D_GNU_SOURCE -DVT_LEVEL='"x86-64-v2"' -DVT_LEVEL_BASE -I"$ROOT/src" main.c -o bin/vitrine
    [ "$(bin/vitrine a)" = "base a" ] # nothing lies beside it
    for l in x86-64-v3 x86-64-v4; do
        mkdir -p libexec/vitrine/$l
        printf '#!/bin/sh\necho %s "$@"\n' $l >libexec/vitrine/$l/vitrine
        chmod +x libexec/vitrine/$l/vitrine
    done
    best=base
    for l in x86-64-v3 x86-64-v4; do
        if /lib64/ld-linux-x86-64.so.2 --help 2>/dev/null | grep -q "$l (supported"; then best=$l; fi
    done
    [ "$(bin/vitrine 'a b')" = "$best a b" ]
    ln -s bin/vitrine link # by another name it is the same program
    [ "$(./link c)" = "$best c" ]
    cp bin/vitrine bin/vitrine-mpi # another program, which must not go on as that one
    [ "$(bin/vitrine-mpi c)" = "base c" ]
    [ "$(VITRINE_LEVEL=x86-64-v2 bin/vitrine d)" = "base d" ]
    [ "$(VITRINE_LEVEL= bin/vitrine e)" = "$best e" ]
    if [ $best = x86-64-v4 ]; then [ "$(VITRINE_LEVEL=x86-64-v3 bin/vitrine f)" = "x86-64-v3 f" ]; fi
    for wrong in x86-64 x86-64-v9 native ../v3; do
        run env VITRINE_LEVEL=$wrong bin/vitrine
        [ "$status" = 2 ]
        grep -q "^vitrine: VITRINE_LEVEL is '$wrong', must be" <<<"$output" || fail "$output"
    done
    chmod -x libexec/vitrine/*/vitrine
    [ "$(bin/vitrine g)" = "base g" ]
    run env VITRINE_LEVEL=x86-64-v3 bin/vitrine
    [ "$status" = 2 ]
}

@test "shell scripts pass shellcheck, and the package's files agree on a version" {
    version=$("$VITRINE" --version | sed 's/vitrine //')
    grep -q "^vitrine ($version)" "$ROOT/debian/changelog"
    grep -qx "version = \"$version\"" "$ROOT/python/pyproject.toml"
    here shellcheck
    shellcheck -S warning "$ROOT"/tools/*.sh "$ROOT"/tests/part.sh "$ROOT"/.ci/run
}
