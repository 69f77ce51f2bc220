"""shots.py - pictures of a report for people to look at: shots.py PAGE FOLDER, at 390 and 1,440 pixels, light and dark;
the whole page, and a window's height at a time."""
import os
import sys

from browser import Browser

page, folder = sys.argv[1], sys.argv[2]
os.makedirs(folder, exist_ok=True)
browser = Browser()
try:
    for width in (390, 1440):
        for scheme in ("light", "dark"):
            browser.size(width, 900, touch=width < 500)
            browser.scheme(scheme)
            seconds = browser.open(page)
            browser.settle()
            overflow = browser.js("document.documentElement.scrollWidth - innerWidth")
            browser.shot("%s/%d-%s.png" % (folder, width, scheme))
            high = browser.js("document.documentElement.scrollHeight")
            for part, top in enumerate(range(0, high, 840)):
                browser.js("document.documentElement.style.scrollBehavior = 'auto', scrollTo(0, %d)" % top)
                browser.settle()
                browser.shot("%s/%d-%s-%02d.png" % (folder, width, scheme, part), whole=False)
            print("%d %s: drawn in %.2f s, %d pixels too wide, console %s" % (width, scheme, seconds, overflow, browser.said()))
finally:
    browser.close()
