"""Chromium, controlled through its debugging pipe: any window size, light, dark and print, without further packages."""

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
# Chromium reads commands from file descriptor 3 and writes answers to 4.
LAUNCH = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"


class Browser:
    """One page in a headless Chromium. `complaints` are its errors, `loaded` the addresses that it requested."""

    def __init__(self, home: Path) -> None:
        assert CHROMIUM is not None
        (commands, self.commands), (self.answers, answers) = os.pipe(), os.pipe()
        quiet = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars"]
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={home}", *quiet]
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(commands), str(answers), CHROMIUM, *options],
            pass_fds=(commands, answers),
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self.session = ""
        self.last, self.rest = 0, b""
        self.complaints: list[str] = []
        self.loaded: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command and returns its answer."""
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        message |= {"sessionId": self.session} if self.session else {}
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self.last:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        """Returns the next answer or event, and keeps what events say."""
        while b"\0" not in self.rest:
            part = os.read(self.answers, 1 << 20)
            assert part, "Chromium has ended"
            self.rest += part
        text, self.rest = self.rest.split(b"\0", 1)
        found: dict[str, Any] = json.loads(text)
        said, method = found.get("params", {}), found.get("method")
        if method == "Network.requestWillBeSent":
            self.loaded += [url] if not (url := said["request"]["url"]).startswith("data:") else []
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(said["exceptionDetails"]["exception"]["description"])
        elif method in ("Log.entryAdded", "Runtime.consoleAPICalled"):
            self.complaints.append(json.dumps(said))
        return found

    def open(self, page: Path, width: int = 1280, height: int = 800, scheme: str = "light", media: str = "screen") -> None:
        """Opens a page in a window of this size and waits until it is loaded."""
        self.complaints, self.loaded = [], []
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=page.as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass
        self.loaded.remove(page.as_uri())

    def run(self, script: str) -> Any:
        """Returns the value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, path: Path, whole: bool = False) -> None:
        """Writes a screenshot of the window, or of the whole page."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]))

    def printed(self) -> bytes:
        """Returns the page as PDF."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def close(self) -> None:
        """Ends Chromium."""
        self.session = ""
        self.call("Browser.close")
        self.process.wait(timeout=60)
        os.close(self.commands)
        os.close(self.answers)
