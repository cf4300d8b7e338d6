# SPDX-License-Identifier: MIT
function __vitrine
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l command ''
    set -l previous ''
    if test (count $words) -ge 2
        set command $words[2]
        set previous $words[-1]
    end
    set -l all ($words[1] completion words -- "$command" "$previous" "$current" 2>/dev/null)
    switch "$all[1]"
        case files
            __fish_complete_path $current
        case folders
            __fish_complete_directories $current
        case '*'
            string join \n -- $all[2..]
    end
end
complete -c vitrine -f -a '(__vitrine)'
