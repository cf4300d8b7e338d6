# SPDX-License-Identifier: MIT
# Help: fits 80 columns, options in groups, and every example of it runs as it stands.
load helpers

commands() { "$VITRINE" help | awk '/^Commands:/{on=1; next} /^Examples:/{on=0} on && /^  [a-z]/{print $1}' | grep -vx help; }

# narrow FILE: no line of it is wider than 80 characters.
narrow() {
    local wide
    wide=$(LC_ALL=C.UTF-8 awk 'length($0) > 80' "$1")
    [ -z "$wide" ] || fail "wider than 80 columns:" "$wide"
}

@test "every help fits 80 columns, and groups options" {
    for c in $(commands) recipe; do
        "$VITRINE" help "$c" >help.txt
        narrow help.txt || fail "help $c"
    done
    "$VITRINE" help >help.txt
    narrow help.txt
    vt help eval
    says "Model:" "Data:" "Threat:" "Output:" "Run:"
    # each option stands below its own title, and none is lost
    "$VITRINE" help eval | awk '/^Examples:/{exit} /^[A-Z][a-z]*:$/{g=$1} $1=="--heads"{h=g} $1=="--images"{i=g} $1=="--eps"{p=g} $1=="--out"{o=g} $1=="--seed"{s=g}
        END{exit !(h=="Model:" && i=="Data:" && p=="Threat:" && o=="Output:" && s=="Run:")}'
}

@test "help says which commands several processes can share" {
    for c in $(commands); do
        case $c in eval | curve | train | table) want=1 ;; *) want=0 ;; esac
        [ "$("$VITRINE" help "$c" | grep -c 'vitrine-mpi')" = $want ] || fail "help $c"
    done
}

# The examples of help COMMAND, as a shell script.
examples() { "$VITRINE" help "$1" | sed '1,/^Examples:$/d'; }

@test "every example in help runs as it stands" {
    mkdir bin
    ln -s "$VITRINE" bin/vitrine
    export PATH=$PWD/bin:$PATH
    for c in $(commands); do
        mkdir "$c"
        for there in weights datasets recipes tests; do ln -s "$ROOT/$there" "$c/$there"; done
        examples "$c" >"$c/examples.sh"
        [ "$(grep -c '^  vitrine ' "$c/examples.sh")" -ge 2 ] || fail "help $c has fewer than two examples"
        (cd "$c" && bash -e examples.sh) >"$c/said.txt" 2>&1 || fail "an example of help $c fails:" "$(tail -n 3 "$c/said.txt")"
    done
}
