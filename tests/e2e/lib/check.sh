# check.sh - cases of an end-to-end test, counted. Sourced by tests/e2e/*.sh from the top of the tree; they end with `total`.
passed=0 failed=0 skipped=0
skip() { # TITLE WHY
    echo "skipped: $1: $2"
    skipped=$((skipped + 1))
}
check() { # TITLE COMMAND...: the command says why it fails; status 3: skipped, saying why
    local title=$1 why
    shift
    why=$("$@" 2>&1)
    case $? in
        0) echo "ok      $title"; passed=$((passed + 1)) ;;
        3) skip "$title" "$why" ;;
        *) printf 'FAILED  %s: %s\n' "$title" "$why"; failed=$((failed + 1)) ;;
    esac
}
total() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}
