"""A headless Chromium, by the W3C WebDriver protocol of chromedriver over the loopback interface; standard library alone."""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request

DEADLINE = 90  # seconds for a command; a busy machine is slow, and one that hangs is stopped


class Browser:
    """One browser with an empty profile of its own, to be used in a `with`."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="labelshift-browser-")
        log = os.path.join(self.folder, "chromedriver.log")
        with open(log, "w") as out:
            self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=out, stderr=subprocess.STDOUT,
                                           start_new_session=True)
        try:
            self.address = f"http://127.0.0.1:{self._port(log)}"
            flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                     "--disable-background-networking", "--disable-component-update", "--disable-sync",
                     "--disable-dev-shm-usage", "--hide-scrollbars", f"--user-data-dir={self.folder}/profile"]
            wanted = {"browserName": "chrome", "goog:chromeOptions": {"args": flags, "binary": shutil.which("chromium")},
                      "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
            self.session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if hasattr(self, "session"):
            try:
                self._ask("DELETE", f"/session/{self.session}")
            except OSError:
                pass  # what is left of it ends with its group
        try:
            os.killpg(self.driver.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.driver.wait(DEADLINE)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _port(self, log):
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            with open(log) as lines:
                if found := re.search(r"successfully on port (\d+)", lines.read()):
                    return found[1]
            if self.driver.poll() is not None:
                break
            time.sleep(0.02)
        raise OSError("chromedriver did not start: " + open(log).read())

    def _ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise OSError(error.read().decode()) from None

    def _in_session(self, method, path, body=None):
        return self._ask(method, f"/session/{self.session}{path}", body)

    def open(self, path):
        self._in_session("POST", "/url", {"url": "file://" + os.path.abspath(path)})

    def run(self, script, *arguments):
        """What the body of a function returns that is called in the page."""
        return self._in_session("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def devtools(self, command, **parameters):
        return self._in_session("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def size(self, width, height, phone=False):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1,
                      mobile=phone)

    def media(self, kind="", scheme="light"):
        self.devtools("Emulation.setEmulatedMedia", media=kind, features=[{"name": "prefers-color-scheme", "value": scheme}])

    def console(self):
        """What the console was told since it was last asked."""
        return [entry["level"] + ": " + entry["message"] for entry in self._in_session("POST", "/se/log", {"type": "browser"})]

    def requests(self):
        """Addresses of all that was asked for since this was last asked."""
        found = []
        for entry in self._in_session("POST", "/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found

    def screenshot(self, path, whole=False):
        picture = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as out:
            out.write(base64.b64decode(picture["data"]))

    def pdf(self, path):
        document = self.devtools("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)
        with open(path, "wb") as out:
            out.write(base64.b64decode(document["data"]))
