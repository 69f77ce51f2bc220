# ppl.bash - completion of the ppl command for bash; installed by `make install`. Options and schedules are those that
# --help lists, so that they cannot differ. Scripts are not run for it: their own settings are not offered.

# The options of a command: the words of its --help that begin a line with dashes.
_ppl_options() {
    case $2 in
    '') printf '%s\n' --help --version -i ;;
    script) printf '%s\n' --config --set --run --json --quiet --help ;;
    *) "$1" "$2" --help 2>/dev/null | sed -nE 's/^  (-[a-z], )?(--[a-z-]+).*/\2/p' ;;
    esac
}

# The built-in schedules: the names below the heading of `ppl plan --help`.
_ppl_schedules() {
    "$1" plan --help 2>/dev/null | sed -nE '/^built-in schedules/,$ s/^  ([a-z0-9][a-z0-9-]*).*/\1/p'
}

_ppl_files() { # SUFFIX WORD: directories and files that end so
    compgen -d -S / -- "$2"
    compgen -f -X "!*.$1" -- "$2"
}

_ppl() {
    local program=$1 word=$2 before=$3 command="" i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        plan | report | devices) [ -n "$command" ] || command=${COMP_WORDS[i]} ;;
        *.lua) [ -n "$command" ] || command=script ;;
        esac
    done
    case $before in
    --output | -o | --csv | --config | --trace)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        compopt -o filenames 2>/dev/null
        return
        ;;
    --run)
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
        compopt -o filenames 2>/dev/null
        return
        ;;
    --format)
        mapfile -t COMPREPLY < <(compgen -W 'table csv json svg' -- "$word")
        return
        ;;
    --device)
        mapfile -t COMPREPLY < <(compgen -W 'cpu cuda' -- "$word")
        return
        ;;
    --compare)
        mapfile -t COMPREPLY < <(compgen -P "${word%"${word##*,}"}" -W "$(_ppl_schedules "$program")" -- "${word##*,}")
        compopt -o nospace 2>/dev/null
        return
        ;;
    --ranks | -p | --microbatches | -m | --steps | --costs | --link | --link-between | --node-ranks | --bytes | --seconds | --set) return ;;
    esac
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_ppl_options "$program" "$command")" -- "$word")
        return
    fi
    case $command in
    devices) [[ " ${COMP_WORDS[*]} " == *' --links '* ]] && mapfile -t COMPREPLY < <(_ppl_files lua "$word") ;;
    '') mapfile -t COMPREPLY < <(compgen -W "$([ "$before" = -i ] || echo plan report devices)" -- "$word"; _ppl_files lua "$word") ;;
    plan) mapfile -t COMPREPLY < <(compgen -W "$(_ppl_schedules "$program")" -- "$word"; _ppl_files lua "$word"; compgen -f -X '!*.csv' -- "$word") ;;
    report) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    esac
    # A directory alone is no whole word yet.
    if [ "${#COMPREPLY[@]}" -eq 1 ] && [[ ${COMPREPLY[0]} == */ ]]; then compopt -o nospace 2>/dev/null; fi
    if [ "$command" = report ]; then compopt -o filenames 2>/dev/null; fi
}
complete -F _ppl ppl
