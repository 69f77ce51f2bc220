#!/bin/bash
# report.sh - how large the report of 1,000 steps at 8 ranks is, and how fast it is drawn: written from an emulated run, then
# opened several times in a headless browser where one is installed. `make bench` runs it.
cd "$(dirname "$0")/../.." || exit 1
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cat >"$here/long.lua" <<'LUA'
local ppl = require 'ppl'
return ppl.trainer {
    model = ppl.nn.gpt { layers = 8, dim = 16, heads = 1, context = 8 }, loss = ppl.nn.cross_entropy(), steps = 1000, batch = 16,
    data = ppl.data.text { files = { '/usr/share/common-licenses/GPL-3' }, context = 8 },
    pipeline = { stages = 8, microbatches = 16 }, device = 'emulated', costs = { f = 5e-5, i = 5e-5, w = 5e-5 },
}
LUA
./ppl "$here/long.lua" --quiet --run "$here/run" && ./ppl report "$here/run" --quiet || exit 1
bytes=$(stat -c %s "$here/run/report.html")
echo "$(awk "BEGIN { printf \"%.2f\", $bytes / 1e6 }") MB for 1,000 steps at 8 ranks, want less than 5"
[ "$bytes" -lt 5000000 ] || exit 1
cd tests/report && python3 -c 'import sys, browser; sys.exit(browser.find() is None)' 2>/dev/null || {
    echo 'skipped: opening it: no browser here, want scripts/setup browser'
    exit 0
}
python3 - "$here/run/report.html" <<'PY'
import statistics
import sys
from browser import Browser
browser = Browser()
try:
    browser.size(1440, 900)
    seconds = [browser.open(sys.argv[1]) for _ in range(7)]
finally:
    browser.close()
print("drawn in %.2f s (median of 7, the first %.2f s), want less than 2" % (statistics.median(seconds), seconds[0]))
sys.exit(statistics.median(seconds) >= 2)
PY
