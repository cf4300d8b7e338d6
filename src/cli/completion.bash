# SPDX-License-Identifier: MIT
_vitrine() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} all
    if [ "$COMP_CWORD" -eq 1 ]; then command='' previous=''; fi
    if [ "$COMP_CWORD" -gt 2 ]; then
        # --name=value comes as three words
        if [ "$current" = = ]; then current=''; elif [ "$previous" = = ]; then previous=${COMP_WORDS[COMP_CWORD-2]}; fi
    fi
    mapfile -t all < <("${COMP_WORDS[0]}" completion words -- "$command" "$previous" "$current" 2>/dev/null)
    case ${all[0]-} in
    files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    folders) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    *) all=("${all[@]:1}"); COMPREPLY=("${all[@]%%$'\t'*}") ;;
    esac
    if [[ ${COMPREPLY[0]-} == *= ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -F _vitrine vitrine
