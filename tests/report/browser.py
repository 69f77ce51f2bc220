"""browser.py - one page in headless Chromium, driven over its DevTools pipe with the standard library alone. Before: a page
that `ppl report` wrote. After: page.py looks at it, shots.py takes pictures of it."""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time


def find():
    """The path of the browser, or None."""
    return next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)


class Browser:
    def __init__(self):
        self.home = tempfile.mkdtemp(prefix="ppl-browser-")
        to_read, self.to = os.pipe()
        self.back, back_write = os.pipe()
        # The browser reads its commands from descriptor 3 and answers on 4.
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
                   "--no-first-run", "--disable-extensions", "--disable-background-networking", "--hide-scrollbars",
                   "--force-color-profile=srgb", "--user-data-dir=" + self.home, "about:blank"]
        line = 'exec 3<&%d 4>&%d; exec "$@" >/dev/null 2>&1 </dev/null' % (to_read, back_write)
        self.process = subprocess.Popen(["bash", "-c", line, "bash", find()] + options, pass_fds=(to_read, back_write))
        os.close(to_read)
        os.close(back_write)
        self.number, self.buffer, self.messages, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def _read(self, deadline):
        while b"\0" not in self.buffer:
            if not select.select([self.back], [], [], max(0, deadline - time.time()))[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.back, 1 << 20)
            if not data:
                raise ConnectionError("the browser has ended")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def call(self, method, **params):
        """A command's result; events that come in between are kept in self.messages."""
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.to, json.dumps(command).encode() + b"\0")
        deadline = time.time() + 60
        while True:
            answer = self._read(deadline)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError("%s: %s" % (method, answer["error"]))
                return answer["result"]
            if "method" in answer:
                self.messages.append(answer)

    def js(self, expression):
        """The value of an expression in the page; promises are waited for."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError("%s: %s" % (expression, result["exceptionDetails"].get("exception", result).get("description")))
        return result["result"].get("value")

    def size(self, width, height, scale=1, touch=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=touch)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, path):
        """Loads a file; gives the seconds from the request until all is drawn."""
        self.messages.clear()
        begin = time.time()
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        while not self.js("document.readyState === 'complete' && !!(window.PPL && PPL.ready)"):
            if time.time() > begin + 30:
                raise TimeoutError("the page is not drawn: %s" % self.said())
            time.sleep(0.02)
        return time.time() - begin

    def settle(self):
        """Waits until what was asked for is drawn."""
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 60))))")

    def said(self):
        """Everything that the page or the browser wrote to the console since the page was opened."""
        lines = []
        for m in self.messages:
            p = m["params"]
            if m["method"] == "Runtime.consoleAPICalled":
                lines.append("%s: %s" % (p["type"], [a.get("value", a.get("description")) for a in p["args"]]))
            elif m["method"] == "Runtime.exceptionThrown":
                d = p["exceptionDetails"]
                lines.append("exception: %s" % d.get("exception", d).get("description", d.get("text")))
            elif m["method"] == "Log.entryAdded":
                lines.append("%s: %s" % (p["entry"]["level"], p["entry"]["text"]))
        return lines

    def requests(self):
        """Addresses that the page asked for, data in the page itself left out."""
        asked = [m["params"]["request"]["url"] for m in self.messages if m["method"] == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith("data:")]

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key):
        text = key if len(key) == 1 else None
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def shot(self, path, whole=True):
        """A picture of the window, or of the whole page."""
        more = {}
        if whole:
            box = self.call("Page.getLayoutMetrics")["cssContentSize"]
            more = {"captureBeyondViewport": True, "clip": dict(x=0, y=0, width=box["width"], height=box["height"], scale=1)}
        data = self.call("Page.captureScreenshot", format="png", **more)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (OSError, RuntimeError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.home, ignore_errors=True)
