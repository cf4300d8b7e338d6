#!/bin/sh
# SPDX-License-Identifier: MIT
# What `make install` puts where: the command, its manual pages (made of its help) and completions (printed by itself), recipes
# and the Python file by which a model is served; the library (libvitrine.a, libvitrine.so.0), which lies in FOLDER; and
# vitrine-mpi where it was made (make MPI=1).
# Usage: tools/install.sh [--remove] [--library FOLDER] [--libdir LIBDIR] [--private LIBS] [--mpi PROGRAM] COMMAND PREFIX [DESTDIR]
set -eu
usage() { echo "usage: tools/install.sh [--remove] [--library FOLDER] [--libdir DIR] [--private LIBS] [--mpi PROGRAM] COMMAND PREFIX [DESTDIR]" >&2; exit 2; }
remove=0 library='' libdir='' private='' mpi=''
while [ $# -gt 0 ]; do
    case $1 in
    --remove) remove=1 && shift ;;
    --library | --libdir | --private | --mpi)
        [ $# -ge 2 ] || usage
        eval "${1#--}=\$2" && shift 2 ;;
    --*) usage ;;
    *) break ;;
    esac
done
[ $# -ge 2 ] || usage
command=$1 prefix=$2 to=${3:-}$2
case $prefix in /*) ;; *) echo "tools/install.sh: PREFIX '$prefix' is not an absolute path" >&2; exit 2 ;; esac
here=$(dirname "$0")/..
share=$to/share
libdir=${libdir:-$prefix/lib}
case $libdir in /*) ;; *) echo "tools/install.sh: LIBDIR '$libdir' is not an absolute path" >&2; exit 2 ;; esac
made=$(mktemp)
trap 'rm -f "$made"' EXIT

# put MODE FROM TO
put() {
    if [ $remove = 1 ]; then rm -f "$3"; else install -D -m "$1" "$2" "$3"; fi
}
# print TO PROGRAM WORDS...: what the program prints, as a file; one that it cannot print ends the installation
print() {
    target=$1
    shift
    [ $remove = 1 ] || "$@" >"$made"
    put 644 "$made" "$target"
}
man=$here/tools/man.sh

names=$("$command" help | sed -n '/^Commands:/,/^Examples:/s/^  \([a-z]*\)  *[a-z].*/\1/p')
for name in $names; do
    [ "$name" = help ] || print "$share/man/man1/vitrine-$name.1" "$man" "$command" "$name"
done
print "$share/man/man1/vitrine.1" "$man" "$command"
print "$share/man/man5/vitrine-recipe.5" "$man" "$command" recipe
print "$share/bash-completion/completions/vitrine" "$command" completion bash
print "$share/zsh/site-functions/_vitrine" "$command" completion zsh
print "$share/fish/vendor_completions.d/vitrine.fish" "$command" completion fish
(cd "$here" && find recipes -type f && find python -maxdepth 2 '(' -path 'python/vitrine*.py' -o -name py.typed ')') | while read -r file; do
    put 644 "$here/$file" "$share/vitrine/$file"
done
if [ -n "$library" ]; then
    lib=${3:-}$libdir
    version=$("$command" --version | sed -n '1s/^vitrine \([0-9.]*\).*/\1/p')
    [ $remove = 1 ] || sed "s|@PREFIX@|$prefix|; s|@LIBDIR@|$libdir|; s|@VERSION@|$version|; s|@PRIVATE@|$private|" "$here/tools/vitrine.pc.in" >"$made"
    put 644 "$made" "$lib/pkgconfig/vitrine.pc"
    put 644 "$here/include/vitrine.h" "$to/include/vitrine.h"
    put 644 "$library/libvitrine.a" "$lib/libvitrine.a"
    put 644 "$library/libvitrine.so.0" "$lib/libvitrine.so.0"
    if [ $remove = 1 ]; then rm -f "$lib/libvitrine.so"; else ln -sf libvitrine.so.0 "$lib/libvitrine.so"; fi
fi
[ $remove = 0 ] && [ -z "$mpi" ] || put 755 "$mpi" "$to/bin/vitrine-mpi"
put 755 "$command" "$to/bin/vitrine"
[ $remove = 0 ] || [ ! -d "$share/vitrine" ] || find "$share/vitrine" -depth -type d -empty -delete
