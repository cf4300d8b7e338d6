# SPDX-License-Identifier: MIT
"""Headless Chromium over its debugging pipe: no package, no port, no network. tools/picture.sh and the tests use it.

    browser.py --screenshot OUT.png --width W --height H [--scale S] [--scheme dark] [--small] PAGE
    browser.py --check [--widths 360,800,1280] PAGE...    exit 1 and a line for each finding
"""
import argparse
import base64
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zlib

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions", "--hide-scrollbars",
         "--disable-dev-shm-usage", "--remote-debugging-pipe"]


def find():
    """Path of the browser, or None."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page; `events` holds what the browser reported by itself since the last open()."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="vitrine-browser-")
        to_child, self.to = os.pipe()
        self.back, from_child = os.pipe()
        self.child = subprocess.Popen(
            ["/bin/sh", "-c", f'exec "$0" "$@" 3<&{to_child} 4>&{from_child}', find(), *FLAGS,
             f"--user-data-dir={self.profile}", "about:blank"],
            pass_fds=[to_child, from_child], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child), os.close(from_child)
        self.serial, self.pending, self.events, self.session = itertools.count(1), b"", [], None
        page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def close(self):
        self.child.kill()
        self.child.wait()
        os.close(self.to), os.close(self.back)
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.close()

    def read(self):
        while b"\0" not in self.pending:
            piece = os.read(self.back, 1 << 20)
            if not piece:
                raise RuntimeError("the browser has gone")
            self.pending += piece
        message, self.pending = self.pending.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        number = next(self.serial)
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        while True:
            answer = self.read()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def wait(self, method):
        while not any(e.get("method") == method for e in self.events):
            self.events.append(self.read())

    def open(self, page, width, height=900, scheme="light", scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        answer = self.call("Page.navigate", url=pathlib.Path(page).resolve().as_uri())
        if "errorText" in answer:
            raise RuntimeError(f"{page}: {answer['errorText']}")
        self.wait("Page.loadEventFired")

    def evaluate(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def screenshot(self, path, whole=False, small=False):
        png = base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"])
        pathlib.Path(path).write_bytes(smaller(png) if small else png)


def chunks(png):
    at = 8
    while at < len(png):
        n = int.from_bytes(png[at : at + 4], "big")
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + n]
        at += 12 + n


def unfiltered(data, stride, step):
    """Rows of a PNG (RFC 2083, section 6), each behind a 0."""
    before, out = bytearray(stride), bytearray()
    for y in range(0, len(data), stride + 1):
        kind, row = data[y], bytearray(data[y + 1 : y + 1 + stride])
        for i in range(stride if kind else 0):
            left, up = (row[i - step] if i >= step else 0), before[i]
            corner = before[i - step] if i >= step else 0
            guess = left + up - corner
            nearest = min((left, up, corner), key=lambda v: abs(guess - v))
            row[i] = (row[i] + (left, up, (left + up) // 2, nearest)[kind - 1]) & 255
        out += b"\0" + row
        before = row
    return bytes(out)


def smaller(png):
    """The same picture in 52 levels a channel, without filters: for pages, which are mostly flat, two thirds of the bytes."""
    parts = list(chunks(png))
    head = parts[0][1]
    assert head[8:10] == b"\x08\x02", "8 bits, RGB"
    data = zlib.decompress(b"".join(body for kind, body in parts if kind == b"IDAT"))
    levels = bytes(round(v / 5) * 5 for v in range(256))
    data = zlib.compress(unfiltered(data, 3 * int.from_bytes(head[:4], "big"), 3).translate(levels), 9)
    kept = [(b"IHDR", head), (b"IDAT", data), (b"IEND", b"")]
    return png[:8] + b"".join(len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")
                              for kind, body in kept)


def reported(events, page):
    """Console messages, uncaught errors, failed loads, and every request that is not the page itself or a data URI."""
    own = pathlib.Path(page).resolve().as_uri()
    for e in events:
        p, method = e.get("params", {}), e.get("method")
        if method == "Runtime.consoleAPICalled":
            yield f"console {p['type']}: {[a.get('value') for a in p['args']]}"
        elif method == "Runtime.exceptionThrown":
            yield f"exception: {p['exceptionDetails']['text']}"
        elif method == "Log.entryAdded":
            yield f"log {p['entry']['level']}: {p['entry']['text']}"
        elif method == "Network.requestWillBeSent":
            url = p["request"]["url"]
            if url != own and not url.startswith("data:"):
                yield f"request to {url}"


def check(pages, widths):
    script = pathlib.Path(__file__).with_name("page_check.js").read_text()
    findings = 0
    with Browser() as browser:
        for page, width, scheme in itertools.product(pages, widths, ("light", "dark")):
            browser.open(page, width, scheme=scheme)
            seen = browser.evaluate(script)
            assert seen["width"] == width and seen["dark"] == (scheme == "dark"), seen
            found = seen["findings"] + list(reported(browser.events, page))
            for line in found:
                print(f"{os.path.relpath(page)}, {width} px, {scheme}: {line}")
            findings += len(found)
            print(f"{os.path.relpath(page)}, {width} px, {scheme}: {seen['texts']} texts, least contrast {seen['contrast']:.2f}, "
                  f"smallest text {seen['smallest']:.1f} px")
    return findings


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = p.add_mutually_exclusive_group(required=True)
    what.add_argument("--found", action="store_true", help="which browser there is; exit 1: none")
    what.add_argument("--check", action="store_true")
    what.add_argument("--screenshot", metavar="OUT.png")
    p.add_argument("--widths", default="360,800,1280")
    p.add_argument("--width", type=int, default=1280)
    p.add_argument("--height", type=int, default=900)
    p.add_argument("--scale", type=float, default=1)
    p.add_argument("--scheme", choices=["light", "dark"], default="light")
    p.add_argument("--whole", action="store_true", help="the page to its end")
    p.add_argument("--small", action="store_true", help="fewer bytes, 52 levels a channel")
    p.add_argument("pages", nargs="*", metavar="PAGE")
    a = p.parse_args()
    if not find():
        sys.exit("browser.py: chromium is not installed (tools/deps.sh --install browser)")
    if a.found:
        return print(find())
    if a.check:
        sys.exit(1 if check(a.pages, [int(w) for w in a.widths.split(",")]) else 0)
    with Browser() as browser:
        browser.open(a.pages[0], a.width, a.height, a.scheme, a.scale)
        browser.screenshot(a.screenshot, a.whole, a.small)


if __name__ == "__main__":
    main()
