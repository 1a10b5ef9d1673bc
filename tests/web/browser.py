"""A real browser for tests: Debian's chromium without a window, driven over the DevTools protocol through two pipes."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from queue import Empty, Queue
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-quic",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
_ANSWER_S = 120
# The browser talks on its descriptors 3 and 4.
_LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for place, end in enumerate(ends, 3):
    os.dup2(end, place)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_chromium() -> str | None:
    """Where a browser is, or ``None``."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One browser process with a profile of its own."""

    def __init__(self, program: str, profile: Path) -> None:
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        pipes = [str(to_browser), str(from_browser)]
        self._process = subprocess.Popen(
            [sys.executable, "-Sc", _LAUNCH, *pipes, program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._answers: dict[int, Queue[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}
        self._number = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        answer: Queue[dict[str, Any]] = Queue()
        self._answers[self._number] = answer
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        try:
            found = answer.get(timeout=_ANSWER_S)
        except Empty:
            raise AssertionError(f"the browser did not answer {method} within {_ANSWER_S} s") from None
        assert "error" not in found, f"{method}: {found['error']}"
        return found["result"]

    def open(self, url: str = "about:blank", *, width: int = 1280, height: int = 900, dark: bool = False) -> Page:
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session, context)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.call("Emulation.setEmulatedMedia", features=[scheme])
        page.go(url)
        return page

    def close(self) -> None:
        os.close(self._out)
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(timeout=10)
        os.close(self._in)

    def _read(self) -> None:
        rest = b""
        while chunk := os.read(self._in, 1 << 20):
            *messages, rest = (rest + chunk).split(b"\0")
            for raw in messages:
                message = json.loads(raw)
                if "id" in message:
                    self._answers.pop(message["id"]).put(message)
                elif page := self._pages.get(message.get("sessionId", "")):
                    page.hear(message["method"], message["params"])


class Page:
    """One tab, with everything it complained about in ``errors`` and everything it fetched in ``requests``."""

    def __init__(self, browser: Browser, session: str, context: str) -> None:
        self._browser = browser
        self._session = session
        self._context = context
        self.errors: list[str] = []
        self.requests: list[str] = []

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **params)

    def hear(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(" ".join(str(each.get("value", each.get("description"))) for each in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def go(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 640,
        )

    def evaluate(self, expression: str) -> Any:
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, f"{expression}: {found['exceptionDetails']}"
        return found["result"].get("value")

    def wait(self, expression: str, seconds: float = 60) -> Any:
        """Waits inside the page until an expression is true, and returns it."""
        script = f"""new Promise((resolve) => {{
            const end = performance.now() + {seconds * 1000};
            const look = () => {{
                let found = null;
                try {{ found = ({expression}); }} catch {{}}
                if (!found && performance.now() < end) setTimeout(look, 20);
                else resolve(found instanceof Node ? true : found ?? null);
            }};
            look();
        }})"""
        found = self.evaluate(script)
        assert found, f"not true within {seconds} s: {expression}; errors: {self.errors}"
        return found

    def text(self, selector: str = "body") -> str:
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def click(self, selector: str) -> None:
        self.wait(f"document.querySelector({json.dumps(selector)})")
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    def press(self, key: str, code: int = 0) -> None:
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        self._browser.call("Target.disposeBrowserContext", browserContextId=self._context)
        self._browser._pages.pop(self._session, None)
