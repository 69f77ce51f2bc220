#!/bin/bash
# report.sh - `ppl report` in a headless browser: one run, two runs, a run that was ended from outside, one of a single
# step. Skipped, saying so, without a browser, Python or d3. Prints one line a case, last `N passed, N failed, N skipped`.
ppl=$(readlink -f "${PPL:-./ppl}")
top=$(pwd)
skip() { printf 'skipped: the report in a browser: %s\n0 passed, 0 failed, 1 skipped\n' "$1"; exit 0; }
command -v python3 >/dev/null || skip 'no python3 here, want scripts/setup browser'
(cd tests/report && python3 -c 'import sys, browser; sys.exit(browser.find() is None)') || skip 'no chromium here, want scripts/setup browser'
[ -r /usr/share/nodejs/d3/dist/d3.min.js ] || skip 'no d3 here, want scripts/setup'
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
passed=0 failed=0

train() { # NAME OPTIONS...
    local name=$1
    shift
    timeout 120 "$ppl" "$top/scripts/train_gpt.lua" --layers 4 --dim 48 --context 32 --batch 8 --tokens 4 --quiet --run "$here/$name" "$@"
}
train a --steps 12 --schedule zb-h1 --eval_every 4 && train b --steps 6 --schedule interleaved --stages 4 &&
    train one --steps 1 --stages 1 && mkdir "$here/part" && head -n 5 "$here/a/metrics.jsonl" >"$here/part/metrics.jsonl" ||
    { echo 'FAILED  training'; echo '0 passed, 1 failed, 0 skipped'; exit 1; }

page() { # TITLE PAGE RUNS...: the cases of page.py
    local title=$1 out p f
    shift
    out=$(timeout 170 python3 tests/report/page.py "$@" 2>&1)
    printf '%s\n' "$out" | grep -vE '^[0-9]+ passed' | sed -E "s#^(ok|FAILED) +#&$title: #"
    p=$(sed -nE 's/^([0-9]+) passed.*/\1/p' <<<"$out") f=$(sed -nE 's/^[0-9]+ passed, ([0-9]+) failed.*/\1/p' <<<"$out")
    passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1}))
}
"$ppl" report "$here/a" -q && page 'one run' "$here/a/report.html" "$here/a" || failed=$((failed + 1))
"$ppl" report "$here/a" "$here/b" -q -o "$here/both.html" && page 'two runs' "$here/both.html" "$here/a" "$here/b" || failed=$((failed + 1))

# What is missing is said in words, and nothing fails.
for name in part one; do
    "$ppl" report "$here/$name" -q 2>/dev/null
    out=$(cd tests/report && timeout 60 python3 - "$here/$name/report.html" "$name" <<'PY'
import sys
from browser import Browser
browser = Browser()
try:
    browser.size(1440, 900)
    browser.open(sys.argv[1])
    browser.settle()
    words = browser.js("document.body.innerText")
    want = {"part": ["No timeline: the run has not ended", "No stage was measured", "No bubble was measured", "No memory was recorded", "has no config.yaml"],
            "one": ["too few for a curve", "One rank: it idles for no other", "One stage"]}[sys.argv[2]]
    missing = [w for w in want if w not in words]
    said = browser.said() + (browser.js("PPL.failed") or [])
    if missing or said: print("lacks %s, console %s" % (missing, said))
finally:
    browser.close()
PY
) 2>&1
    if [ -z "$out" ]; then echo "ok      a run that is $name: empty states in words"; passed=$((passed + 1))
    else echo "FAILED  a run that is $name: $out"; failed=$((failed + 1)); fi
done

echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
