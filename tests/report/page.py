"""page.py - a report in a real browser: page.py REPORT RUN_DIR [OTHER_RUN_DIR]. Marks are counted against the run
directory's files; zoom, hover, keys, themes and widths are driven. Prints a line a case, last `N passed, N failed, N
skipped`."""
import json
import re
import sys

from browser import Browser, find

PAGE, RUNS = sys.argv[1], sys.argv[2:]
counts = {"passed": 0, "failed": 0}


def case(name, body):
    try:
        body()
        counts["passed"] += 1
        print("ok      " + name)
    except Exception as error:  # a failed case must not hide the others
        counts["failed"] += 1
        print("FAILED  %s: %s: %s" % (name, type(error).__name__, error))


def same(got, want, what):
    if got != want:
        raise AssertionError("%s: got %r, want %r" % (what, got, want))


def true(value, what):
    if not value:
        raise AssertionError(what)


def summary_of(run):
    with open(run + "/summary.json") as file:
        return json.load(file)


def metrics_of(run):
    with open(run + "/metrics.jsonl") as file:
        return [json.loads(line) for line in file]


def tasks_of(step):
    """(rank, action, begin, end) of a step of the summary, microseconds."""
    for rank, text in enumerate(step["rank"]):
        for item in text.split(";") if text else []:
            action, begin, duration, _ = re.match(r"(.*) (\S+) (\S+) (\S+)$", item).groups()
            yield rank, action, float(begin), float(begin) + float(duration)


def count(browser, selector):
    return browser.js("document.querySelectorAll(%s).length" % json.dumps(selector))


def text(browser, selector):
    return browser.js("document.querySelector(%s).textContent" % json.dumps(selector))


def box(browser, selector):
    return browser.js("(() => { const e = document.querySelector(%s); e.scrollIntoView({block: 'center', behavior: 'instant'});"
                      "const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()" % json.dumps(selector))


def silent(browser):
    same(browser.said(), [], "console")
    same([url for url in browser.requests() if not url.startswith("file:")], [], "requests")
    same(len(browser.requests()), 1, "files asked for")
    same(browser.js("PPL.failed || []"), [], "parts that failed")


def marks(browser, runs):
    """Every step is a point of a curve, every task in view a bar, every stage, rank and memory kind its mark."""
    for key, run in zip("ab", runs):
        steps = len(metrics_of(run))
        path = browser.js("document.querySelector('.curve .run-%s path.line').getAttribute('d')" % key)
        same(len(re.findall("[ML]", path)), steps, "points of the loss of run " + key)
        evals = sum(line.get("eval_loss") is not None for line in metrics_of(run))
        same(count(browser, ".curve .run-%s circle.ring" % key), evals, "held-out losses of run " + key)
    summaries = [summary_of(run) for run in runs]
    for index, summary in enumerate(summaries):
        lane = "document.querySelectorAll('.timeline')[%d]" % index
        same(browser.js(lane + ".querySelectorAll('rect.lane').length"), summary["ranks"], "lanes")
    same(count(browser, ".bars.stages .who"), sum(len(s["stage"]) for s in summaries), "bars of stages")
    same(count(browser, ".bars.totals .who"), sum(s["ranks"] for s in summaries), "bars of memory")
    same(count(browser, "svg.memory"), sum(min(s["ranks"], 16) for s in summaries), "pictures of memory")
    same(count(browser, "svg.bubble path.theory"), len(summaries[0]["curves"]["p"]), "curves of the bubble")
    same(count(browser, "svg.bubble path.dot"), sum(len(s["bubble"]) for s in summaries), "points of the bubble")
    same(count(browser, ".badge"), sum(len(s["stage"]) > 1 for s in summaries), "slowest stages")
    for summary in summaries:
        slowest = max(summary["stage"], key=lambda s: s["f_ms"] + s["i_ms"] + s["w_ms"])
        true("Stage %d " % slowest["stage"] in text(browser, "#stages") or len(summary["stage"]) == 1, "the slowest stage is named")


def drawn(browser, kind):
    return browser.js("[...document.querySelectorAll('.timeline')[0].querySelectorAll('rect.%s')].length" % kind)


def timeline(browser, runs):
    summary = summary_of(runs[0])
    steps = summary["timeline"]["steps"]
    pixels = browser.js("document.querySelector('.timeline rect.lane').width.baseVal.value")

    def wanted(first, last, idle):
        """How many are in view and not narrower than what may be left out in a crowd; and how many there are at all."""
        shown = [t for s in steps for t in tasks_of(s) if (" " in t[1] or t[1] == "validate") == idle and not t[1].startswith(("send", "release"))
                 and t[2] <= last + 0.2 and t[3] >= first - 0.2 and t[3] > t[2]]
        wide = [t for t in shown if (t[3] - t[2]) * pixels / (last - first) > 0.75 and t[2] < last - 0.2 and t[3] > first + 0.2]
        return len(wide), len(shown)

    def extent(some):
        work = [t for s in some for t in tasks_of(s) if re.match(r"\d", t[1])]
        return min(t[2] for t in work), max(t[3] for t in work)

    # A second run may have longer steps: both are shown at its scale.
    first, last = extent(steps[-1:])
    if len(runs) > 1:
        last = first + max(b - a for a, b in (extent(summary_of(run)["timeline"]["steps"][-1:]) for run in runs))
    least, most = wanted(first, last, False)
    got = drawn(browser, "task:not(.S)")
    true(least <= got <= most and got > 0, "%d tasks of the last step are drawn, want %d to %d" % (got, least, most))
    least, most = wanted(first, last, True)
    got = drawn(browser, "wait")
    true(least <= got <= most, "%d waits are drawn, want %d to %d" % (got, least, most))
    browser.js("(() => { const s = document.querySelector('.controls select'); s.value = 'all'; s.dispatchEvent(new Event('change')); })()")
    browser.settle()
    if len(runs) == 1:
        least, most = wanted(*extent(steps), False)
        got = drawn(browser, "task:not(.S)")
        true(least <= got <= most, "%d tasks of all steps are drawn, want %d to %d" % (got, least, most))
    browser.js("(() => { const s = document.querySelector('.controls select'); s.selectedIndex = %d; s.dispatchEvent(new Event('change')); })()" % (len(steps) - 1))
    browser.settle()


WIDEST = ("(() => { let best = null; for (const e of document.querySelector('.timeline').querySelectorAll('rect.%s'))"
          "if (!best || e.width.baseVal.value > best.width.baseVal.value) best = e;"
          "best.scrollIntoView({block: 'center', behavior: 'instant'});"
          "const b = best.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2, b.width]; })()")


# How much the first timeline is magnified, and where it is; and the axis' first and last words.
VIEW = ("(() => { const s = document.querySelector('.timeline'), t = d3.zoomTransform(s), a = [...s.querySelectorAll('.axis text')];"
        "return [t.k, t.x, a[0].textContent, a[a.length - 1].textContent]; })()")


def zoom(browser, runs):
    before = browser.js(VIEW)
    for label, grows in (("Zoom in", True), ("Zoom out", False)):
        was = browser.js(VIEW)
        browser.js("document.querySelector('[aria-label=\"%s\"]').click()" % label)
        browser.settle()
        now = browser.js(VIEW)
        true(now[0] > was[0] if grows else now[0] < was[0], "%s: %s became %s" % (label, was, now))
        true(now[2:] != was[2:], "%s: the axis stays %s" % (label, now))
    x, y, _ = browser.js(WIDEST % "task")
    was = browser.js(VIEW)
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240, modifiers=2)  # with Ctrl
    browser.settle()
    true(browser.js(VIEW)[0] > was[0] * 1.2, "Ctrl and wheel: %s became %s" % (was, browser.js(VIEW)))
    x, y, _ = browser.js(WIDEST % "task")
    was = browser.js(VIEW)
    browser.mouse("mousePressed", x, y, button="left", clickCount=1)
    browser.mouse("mouseMoved", x - 60, y, button="left", buttons=1)
    browser.mouse("mouseReleased", x - 60, y, button="left", clickCount=1)
    browser.settle()
    now = browser.js(VIEW)
    true(now[0] == was[0] and now[1] != was[1], "dragging pans: %s became %s" % (was, now))
    browser.js("document.querySelector('[aria-label=\"Fit the chosen steps\"]').click()")
    browser.settle()
    same(browser.js(VIEW), before, "the view after Fit")


def hover(browser, runs):
    x, y, _ = browser.js(WIDEST % "task")
    browser.mouse("mouseMoved", x, y)
    browser.settle()
    tip = text(browser, "#tip")
    true(re.search(r"\d+[FBIWU]\d*: .*(ms|s)", tip) or "norm" in tip or "sending" in tip, "the tip of a task: " + tip)
    true(re.search(r"rank \d+, step \d+", text(browser, ".details")), "details of a task")
    same(count(browser, "rect.chosen"), 1, "outlines")
    if count(browser, ".timeline rect.wait"):
        x, y, _ = browser.js(WIDEST % "wait")
        browser.mouse("mouseMoved", x, y)
        browser.settle()
        tip = text(browser, "#tip")
        true(re.search(r"idle .*(waits for)", tip), "the tip of idle time: " + tip)
        if "activation of" in tip or "gradient of" in tip:
            same(count(browser, "path.cause"), 1, "arrows from the cause")
    browser.mouse("mouseMoved", 2, 2)
    browser.settle()
    same(browser.js("document.getElementById('tip').hidden"), True, "the tip is gone")
    left, top, width, height = box(browser, ".curve")
    browser.mouse("mouseMoved", left + width / 2, top + height / 2)
    browser.settle()
    true(re.search(r"step.* [\d,]+.*\d\.\d{4}", text(browser, "#tip")), "the tip of a loss: " + text(browser, "#tip"))
    browser.mouse("mouseMoved", 2, 2)


def keys(browser, runs):
    browser.js("document.querySelector('.timeline').focus()")
    seen = set()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        browser.key(key)
        browser.settle()
        seen.add(text(browser, ".details"))
    true(len(seen) >= (3 if summary_of(runs[0])["ranks"] > 1 else 2), "arrow keys walk over tasks: %s" % seen)
    was = browser.js(VIEW)
    browser.key("+")
    browser.settle()
    true(browser.js(VIEW)[0] > was[0], "+ zooms")
    browser.key("0")
    browser.key("Escape")
    browser.settle()
    same(count(browser, "rect.chosen"), 0, "outlines after Escape")
    box(browser, ".curve")
    browser.js("document.querySelector('.curve').focus({preventScroll: true})")
    browser.settle()
    browser.key("End")
    browser.settle()
    true("%s" % format(metrics_of(runs[0])[-1]["step"], ",") in text(browser, "#tip"), "End shows the last step")
    browser.key("Escape")
    # Everything that can be operated can be reached, has a name, and shows its focus.
    nameless = browser.js("[...document.querySelectorAll('a,button,select,summary,[tabindex=\"0\"]')].filter(e => !(e.getAttribute('aria-label') || e.textContent).trim()).length")
    same(nameless, 0, "elements without a name")
    same(browser.js("[...document.querySelectorAll('svg')].filter(e => !e.getAttribute('aria-label') || !e.getAttribute('role')).length"), 0, "drawings without a label")


CONTRAST = """(() => {
  const probe = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const light = c => { probe.fillStyle = c; probe.fillRect(0, 0, 1, 1); const [r, g, b] = [...probe.getImageData(0, 0, 1, 1).data]
    .map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const style = getComputedStyle(document.documentElement), value = n => style.getPropertyValue(n).trim();
  const pairs = [['--ink', '--page'], ['--ink', '--card'], ['--soft', '--page'], ['--soft', '--card'], ['--accent', '--card'], ['--run-a', '--card'], ['--run-b', '--card'],
    ...['F', 'B', 'I', 'W', 'U', 'N', 'S'].map(k => ['--' + k + '-ink', '--' + k]), ['--ink', '--idle']];
  return pairs.map(([a, b]) => { const [x, y] = [light(value(a)), light(value(b))].sort((p, q) => q - p); return [a + ' on ' + b, (x + 0.05) / (y + 0.05)]; }).filter(p => p[1] < 4.5);
})()"""


def looks(browser, runs):
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        browser.settle()
        same(browser.js("document.documentElement.dataset.theme"), scheme, "theme by the system's wish")
        same(browser.js(CONTRAST), [], "contrasts below 4.5, " + scheme)
    browser.js("document.getElementById('theme').click()")
    same(browser.js("document.documentElement.dataset.theme"), "light", "theme by the button")
    browser.js("document.getElementById('theme').click(); document.getElementById('theme').click()")
    browser.scheme("light")
    for width in (320, 390, 768, 1440, 2200):
        browser.size(width, 900, touch=width < 500)
        browser.settle()
        same(browser.js("document.documentElement.scrollWidth <= innerWidth"), True, "no sideways scrolling at %d pixels" % width)
        narrow = browser.js("[...document.querySelectorAll('svg')].filter(e => e.getBoundingClientRect().right > innerWidth + 1).length")
        same(narrow, 0, "drawings that stick out at %d pixels" % width)
    browser.size(1440, 900)
    browser.settle()


def main():
    if not find():
        print("skipped: the report in a browser: no chromium here, want scripts/setup browser")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    browser = Browser()
    try:
        browser.size(1440, 900)
        browser.scheme("light")
        browser.open(PAGE)
        browser.settle()
        case("the page loads nothing and the console stays empty", lambda: silent(browser))
        case("marks are those of the data", lambda: marks(browser, RUNS))
        case("tasks and waits are those of the steps in view", lambda: timeline(browser, RUNS))
        case("zoom by button and wheel, pan by dragging", lambda: zoom(browser, RUNS))
        case("hover tells", lambda: hover(browser, RUNS))
        case("keys", lambda: keys(browser, RUNS))
        case("light, dark, narrow, wide", lambda: looks(browser, RUNS))
        case("after all that the console is still empty", lambda: silent(browser))
    finally:
        browser.close()
    print("%(passed)d passed, %(failed)d failed, 0 skipped" % counts)
    return 1 if counts["failed"] else 0


sys.exit(main())
