#!/bin/bash
# install.sh - what `make install` puts where: the program works from there, the manual page renders and names every option,
# completion of bash and zsh offers what --help lists. Prints one line a case, last `N passed, N failed, N skipped`.
top=$(pwd)
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
. tests/e2e/lib/check.sh
make --no-print-directory install DESTDIR="$here" PREFIX=/usr >"$here/log" 2>&1 || { cat "$here/log"; echo '0 passed, 1 failed, 0 skipped'; exit 1; }
share=$here/usr/share ppl=$here/usr/bin/ppl

works() {
    cd "$here" && "$ppl" plan gpipe -p 2 -m 2 | grep -q 'free of deadlock' || { echo 'no plan'; return 1; }
    [ -r /usr/share/nodejs/d3/dist/d3.min.js ] || return 0
    mkdir run && echo '{"step": 0, "loss": 1, "tokens_per_s": 1, "step_ms": 1}' >run/metrics.jsonl
    "$ppl" report run 2>/dev/null && [ -s run/report.html ]
}
check 'the installed program finds its library and its page' works

# Options of all commands, a line each: "plan --ranks".
options() {
    local command
    for command in plan report devices "$top/scripts/train_gpt.lua"; do
        "$ppl" "$command" --help | sed -nE "/^settings/q; s#^  (-[a-z], )?(--[a-z-]+).*#${command##*/} \\2#p"
    done
}
renders() {
    local reader
    if command -v man >/dev/null; then reader='man -l'; elif command -v mandoc >/dev/null; then reader=mandoc; else echo 'neither man nor mandoc'; return 3; fi
    MANWIDTH=80 LC_ALL=C.UTF-8 $reader "$share/man/man1/ppl.1" 2>"$here/err" | sed 's/.\x08//g' >"$here/page"
    [ ! -s "$here/err" ] || { cat "$here/err"; return 1; }
    grep -q '^NAME' "$here/page" && grep -q 'EXIT STATUS' "$here/page" || { echo 'no page'; head "$here/page"; return 1; }
}
check 'the manual page renders' renders
lints() { command -v mandoc >/dev/null || { echo 'no mandoc here'; return 3; }; mandoc -T lint "$share/man/man1/ppl.1"; }
check 'mandoc has nothing against the manual page' lints
named() {
    local missing
    missing=$(options | while read -r _ option; do grep -qE "Fl -${option#--}( |\$)" doc/ppl.1 || [ "$option" = --help ] || echo "$option"; done)
    [ -z "$missing" ] && [ "$(options | wc -l)" -gt 20 ] || { echo "lacks $missing"; return 1; }
}
check 'the manual page names every option' named

# What bash offers for a line; its last word is the one to complete.
offered() {
    PATH="$here/usr/bin:$PATH" bash -c '
        source "$0"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _ppl ppl "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf "%s\n" "${COMPREPLY[@]}"' "$share/bash-completion/completions/ppl" "$@" | sort
}
offers() { # WANTED LINE...: the words offered, joined by spaces
    local want=$1 got
    shift
    got=$(cd "$here/files" && offered "$@" | tr '\n' ' ')
    [ "${got% }" = "$want" ] || { echo "ppl ${*:2}: offers '$got', want '$want'"; return 1; }
}
mkdir -p "$here/files/runs/one" "$here/files/runs/two" && touch "$here/files/train.lua" "$here/files/tune.lua" "$here/files/order.csv" "$here/files/a.yaml"
in_bash() {
    bash -n "$share/bash-completion/completions/ppl" &&
        offers 'plan' ppl pl && offers 'train.lua tune.lua' ppl t && offers 'train.lua tune.lua' ppl -i t && offers '--help --version -i' ppl - &&
        offers 'zb-h1 zb-h2 zb-v' ppl plan zb && offers 'order.csv' ppl plan or && offers '--microbatches' ppl plan 1f1b --mi &&
        offers 'csv json svg table' ppl plan 1f1b --format '' && offers 'gpipe,zb-h1 gpipe,zb-h2 gpipe,zb-v' ppl plan --compare gpipe,zb &&
        offers 'runs/one runs/two' ppl report runs/ && offers 'runs/two' ppl report runs/one runs/tw && offers '--output' ppl report --o &&
        offers 'a.yaml' ppl train.lua --config a && offers '--run' ppl train.lua --r && offers '' ppl plan --ranks ''
}
check 'completion for bash' in_bash
all_options() {
    local command option
    options | sed 's/^train_gpt.lua/train.lua/' | while read -r command option; do
        (cd "$here/files" && offered ppl "$command" -- | grep -qx -- "$option") || echo "$command $option"
    done >"$here/missing"
    [ ! -s "$here/missing" ] || { echo "lacks $(cat "$here/missing")"; return 1; }
}
check 'completion offers every option' all_options

# A zsh of its own behind a terminal, a line and a tab.
in_zsh() {
    command -v zsh >/dev/null || { echo 'no zsh here'; return 3; }
    cat >"$here/drive.zsh" <<'ZSH'
zmodload zsh/zpty
zpty -b z "cd $1/files; PATH=$1/usr/bin:$PATH TERM=dumb exec zsh -f -i"
say() { zpty -w z "$1"; }
say "PS1='' fpath=($1/usr/share/zsh/site-functions \$fpath); autoload -U compinit; compinit -u -D; zstyle ':completion:*' list-grouped false; echo rea''dy"
zpty -r z out '*ready*'
for line in "$@[2,-1]"; do
    zpty -n -w z "$line"$'\t\t'
    sleep 1
    say $'\C-u'"echo en''d"
    zpty -r z out '*end*'
    print -r -- "$out"
done
zpty -d z
ZSH
    timeout 60 zsh -f "$here/drive.zsh" "$here" 'ppl plan zb-' 'ppl plan 1f1b --mi' 'ppl report runs/t' 'ppl tr' >"$here/zsh" 2>&1
    local want
    for want in zb-h1 zb-h2 zb-v --microbatches runs/two train.lua; do
        tr -d '\r' <"$here/zsh" | grep -q -- "$want" || { echo "does not offer $want:"; cat "$here/zsh"; return 1; }
    done
}
check 'completion for zsh' in_zsh

total
