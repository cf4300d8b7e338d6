# SPDX-License-Identifier: MIT
_vitrine() {
    local command='' previous='' line
    local -a all keys plain shown
    (( CURRENT > 2 )) && command=$words[2] previous=$words[CURRENT-1]
    all=("${(@f)$($words[1] completion words -- "$command" "$previous" "${(Q)PREFIX}" 2>/dev/null)}")
    case $all[1] in
    (files) _files; return ;;
    (folders) _files -/; return ;;
    esac
    for line in $all[2,-1]; do
        case ${line%%$'\t'*} in
        (*=) keys+=(${line%%$'\t'*}) ;;
        (*) plain+=(${line%%$'\t'*}) shown+=(${${line/$'\t'/ -- }% -- }) ;;
        esac
    done
    (( $#keys )) && compadd -S '' -- $keys
    (( $#plain )) && if [[ "$shown" == *' -- '* ]]; then compadd -l -d shown -- $plain; else compadd -- $plain; fi
}
if [[ ${funcstack[1]-} == _vitrine ]]; then _vitrine "$@"; else compdef _vitrine vitrine; fi
