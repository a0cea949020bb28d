"""Runs the page in headless Chromium: usage: test.py PAGE DIRECTORY.

The page is driven through its own controls, by key presses alone; what it computes is compared with the same
session run natively, and the answers to exercises come from the solver of the tests, which does not know the code
that made them. Screenshots go to the directory.
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

PAGE, OUT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
ROOT = pathlib.Path(__file__).resolve().parent.parent
VOLUMES = ["vsfs:size=2M", "ffs:size=8M,group=1M", "lfs:size=8M"]
OPERATIONS = int(os.environ.get("BOOK_OPERATIONS", "100000"))
FAILED = []


def check(holds, what):
    print(("ok      " if holds else "FAILED  ") + what, flush=True)
    if not holds:
        FAILED.append(what)


class Browser:
    """The debugging protocol of Chromium over a pipe."""

    def __init__(self, program):
        self.dir = tempfile.mkdtemp(prefix="twinfs-book-")
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        words = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
                 f"--user-data-dir={self.dir}", "about:blank"]
        line = " ".join(words) + f" 3<&{theirs_in} 4>&{theirs_out}"
        self.process = subprocess.Popen(["sh", "-c", "exec " + line], pass_fds=(theirs_in, theirs_out),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.out, self.input = ours_out, ours_in
        self.kept, self.number, self.errors, self.session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def message(self):
        while b"\0" not in self.kept:
            more = os.read(self.input, 1 << 20)
            if not more:
                raise SystemExit("the browser is gone")
            self.kept += more
        text, self.kept = self.kept.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if self.session and not method.startswith(("Target.", "Browser.")):
            command["sessionId"] = self.session
        data = json.dumps(command).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        while True:
            got = self.message()
            if got.get("id") == self.number:
                if "error" in got:
                    raise SystemExit(f"{method}: {got['error']}")
                return got["result"]
            self.note(got)

    def note(self, event):
        name, params = event.get("method"), event.get("params", {})
        if name == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif name == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(str(params["args"]))
        elif name == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])

    def js(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, expression, seconds=60):
        end = time.time() + seconds
        while time.time() < end:
            if self.js(expression):
                return True
            time.sleep(0.05)
        return False

    def key(self, key, code=None, text=None, shift=False):
        codes = {"Tab": 9, "Enter": 13, " ": 32, "ArrowDown": 40, "ArrowRight": 39, "ArrowLeft": 37, "End": 35, "Home": 36}
        event = {"key": key, "code": code or key, "windowsVirtualKeyCode": codes.get(key, 0), "modifiers": 8 if shift else 0}
        text = {"Enter": "\r", " ": " "}.get(key, text)
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **event, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def tab_to(self, selector, most=400):
        """Presses Tab until the element has the focus."""
        there = f"document.activeElement && document.activeElement.matches({json.dumps(selector)})"
        if not self.js(f"!!document.querySelector({json.dumps(selector)})"):
            raise SystemExit(f"{selector}: there is no such control")
        for _ in range(most):
            if self.js(there):
                return
            self.key("Tab")
        raise SystemExit(f"{selector}: Tab does not reach it")

    def press(self, selector):
        self.tab_to(selector)
        self.key("Enter")

    def type(self, selector, text):
        self.tab_to(selector)
        if self.js("document.activeElement.tagName") == "SELECT":
            for _ in range(20):
                if self.js("document.activeElement.value") == text:
                    return
                self.key("ArrowDown")
            raise SystemExit(f"{selector}: {text} cannot be chosen")
        self.js("document.activeElement.select && document.activeElement.select()")
        self.call("Input.insertText", text=text)

    def close(self):
        try:
            self.call("Browser.close")
        except (SystemExit, OSError):
            pass
        self.process.wait(20)
        shutil.rmtree(self.dir, ignore_errors=True)


def native(commands):
    words = ["cargo", "run", "--quiet", "-p", "twin-lessons", "--example", "session"]
    text = "".join(json.dumps(command) + "\n" for command in commands)
    done = subprocess.run(words, input=text, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def solved(exercise, given):
    script = ROOT / "crates/twin-lessons/tests/solver.py"
    line = json.dumps({"id": exercise, "given": given}) + "\n"
    return json.loads(subprocess.run([sys.executable, script], input=line, capture_output=True, text=True, check=True).stdout)


def line(browser, text):
    """Runs a line of the shell, by keys."""
    before = browser.js("Number(document.body.dataset.lines || 0)")
    browser.type("#line", text)
    browser.key("Enter")
    return browser.until(f"Number(document.body.dataset.lines || 0) > {before}", 120)


def opens(browser):
    browser.call("Page.navigate", url=PAGE.as_uri())
    check(browser.until("document.body && document.body.dataset.ready === 'yes'"), "the page starts")
    paint = browser.js("Math.round((performance.getEntriesByType('paint').find((one) => one.name === 'first-contentful-paint') || {startTime: -1}).startTime)")
    check(0 <= paint < 1000, f"first paint after {paint} ms")


def digests(browser):
    for settings in VOLUMES:
        commands = [{"do": "make", "settings": settings}, {"do": "run", "line": "workload 1000 7"}, {"do": "run", "line": "sync"},
                    {"do": "view"}]
        here = [browser.js(f"ask({json.dumps(command)})") for command in commands]
        there = native(commands)
        same = here[2]["digest"] == there[2]["digest"] and here[3]["platter"] == there[3]["platter"]
        check(same, f"{settings}: a thousand operations, digest {here[2]['digest']}, platter {here[3]['platter']}, natively the same")


def chapters(browser):
    for chapter in browser.js("ask({do: 'chapters'})")["chapters"]:
        number, first = chapter["number"], chapter["exercises"][0]
        browser.press(f"#nav button[data-chapter='{number}']")
        check(browser.until(f"!!document.querySelector('[data-exercise=\"{first}\"]')"), f"chapter {number} opens")
        question = browser.js(f"ask({{do: 'exercise', id: '{first}', seed: document.getElementById('seed').value}})")
        answers = solved(first, question["given"])
        for part in question["parts"]:
            answer = answers[part["name"]]
            text = " ".join(map(str, answer)) if isinstance(answer, list) else str(answer)
            browser.type(f"[data-exercise='{first}'] [data-name='{part['name']}']", text)
        browser.press(f"[data-exercise='{first}'] button[type=submit]")
        said = browser.js(f"document.querySelector('[data-exercise=\"{first}\"] .result').textContent")
        check(said == "All right.", f"exercise {first} is solved: {said}")
    wrong = browser.js("[...document.querySelectorAll('.exercise')].slice(1, 2).map((one) => { one.querySelector('form').requestSubmit(); return one.querySelector('.result').textContent; })[0]")
    check("Not yet" in (wrong or ""), "an empty answer is not right")
    browser.press("#nav button[data-chapter='']")


def crash(browser):
    """A power failure, its recovery, and the image that is saved."""
    for settings in VOLUMES:
        browser.type("#settings", settings)
        browser.press("#make-form button[type=submit]")
        for text in ("mkdir d", "write d/a 20K", "write b 5000", "mv b d/c"):
            check(line(browser, text), f"{settings}: {text}")
        browser.tab_to("#sync")
        browser.key(" ")
        line(browser, "write d/new 30K")
        line(browser, "sync")
        browser.tab_to("#sync")
        browser.key(" ")
        browser.press("#look-crash")
        points = browser.js("Number(document.getElementById('point').max)")
        browser.tab_to("#point")
        browser.key("End")
        browser.key("ArrowLeft")
        at = browser.js("Number(document.getElementById('point').value)")
        check(at == points - 1 and browser.js("document.getElementById('sync').checked"), f"{settings}: moment {at} by keys")
        browser.press("#cut")
        off = browser.js("ask({do: 'view'}).power") is False
        browser.press("#recover")
        said = browser.js("document.getElementById('crash-said').textContent")
        check(off and "nothing wrong" in said, f"{settings}: cut at {points - 1} of {points}, recovered: {said[:110]}")
        image(browser, settings)


def image(browser, settings):
    saved = OUT / "twinfs.img"
    saved.unlink(missing_ok=True)
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(OUT))
    browser.press("#save")
    length = browser.js("image().length")
    end = time.time() + 20
    while time.time() < end and not (saved.exists() and saved.stat().st_size == length):
        time.sleep(0.1)
    check(saved.exists(), f"{settings}: the image is saved, {length} bytes")
    programs = [os.environ.get("TWINFS"), ROOT / "target/release/twinfs", ROOT / "target/debug/twinfs"]
    program = next((one for one in programs if one and os.path.exists(one)), None)
    if program is None:
        print("skipped: there is no twinfs program to check and mount the image")
        return
    checked = subprocess.run([program, "check", saved], capture_output=True, text=True, check=False)
    check(checked.returncode == 0, f"{settings}: twinfs check: {checked.stdout.strip().splitlines()[-1:]}")
    if not os.path.exists("/dev/fuse"):
        print("skipped: there is no /dev/fuse")
        return
    mount = tempfile.mkdtemp(prefix="twinfs-book-mount-")
    mounted = subprocess.run([program, "mount", saved, mount], capture_output=True, text=True, check=False)
    check(mounted.returncode == 0, f"{settings}: twinfs mount {mounted.stderr.strip()}")
    try:
        seen = {}
        for top, _, files in os.walk(mount):
            for name in files:
                path = os.path.join(top, name)
                data = open(path, "rb").read()
                total = 0
                for byte in data:
                    total = ((total << 1 | total >> 31) + byte) & 0xFFFFFFFF
                seen[os.path.relpath(path, mount)] = f"{len(data)} bytes, sum {total:08x}"
    finally:
        subprocess.run([program, "umount", mount], check=False)
        os.rmdir(mount)
    same = bool(seen)
    for path, what in seen.items():
        answer = browser.js(f"ask({{do: 'run', line: 'read {path}'}})")
        same = same and answer["output"][0].endswith(what)
    check(same, f"{settings}: mounted, {len(seen)} files have the bytes that the page reads")


def long_run(browser):
    """Many operations in slices, while frames are counted. A machine that is busy with others may hold a frame back,
    so the best of three runs counts."""
    for attempt in range(3):
        ended, longest, took = counted_run(browser)
        if ended and longest <= 100:
            break
        print(f"        run {attempt + 1}: longest frame {longest} ms")
    check(ended and longest <= 100, f"{OPERATIONS} operations in {took:.0f} s ({OPERATIONS / took:.0f}/s), longest frame {longest} ms")


def counted_run(browser):
    browser.js("makeVolume('lfs:size=16M,record=no')")
    browser.js("""window.frames_ = {longest: 0, last: performance.now(), on: true};
        (function frame() { const now = performance.now(); frames_.longest = Math.max(frames_.longest, now - frames_.last);
        frames_.last = now; if (frames_.on) requestAnimationFrame(frame); })()""")
    begun = time.time()
    browser.js(f"window.done_ = false; runLine('workload {OPERATIONS} 3').then(() => {{ window.done_ = true; }}); 1")
    ended = browser.until("window.done_", 900)
    longest = browser.js("frames_.on = false, Math.round(frames_.longest)")
    return ended, longest, time.time() - begun


def pictures(browser):
    for scheme in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        for width in (420, 900, 1400):
            browser.call("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=width < 500)
            for place in ("volume", "chapter-43"):
                browser.js(f"location.hash = '{place}'")
                time.sleep(0.2)
                wide = browser.js("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                check(wide <= 0, f"{place} at {width} px, {scheme}: nothing is cut off at the right ({wide} px)")
                height = min(browser.js("document.documentElement.scrollHeight"), 6000)
                clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
                shot = browser.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"]
                (OUT / f"{place}-{width}-{scheme}.png").write_bytes(base64.b64decode(shot))
    browser.call("Emulation.clearDeviceMetricsOverride")


def main():
    program = next((found for found in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if found), None)
    if program is None:
        print("skipped: there is no Chromium")
        return
    browser = Browser(program)
    try:
        opens(browser)
        digests(browser)
        browser.js("location.hash = 'volume'")
        chapters(browser)
        crash(browser)
        browser.js("makeVolume('lfs:size=4M,victim=greedy')")
        line(browser, "workload 200 2")
        pictures(browser)
        long_run(browser)
        check(not browser.errors, f"no error on the console {browser.errors[:5]}")
    finally:
        browser.close()
    print(f"{len(FAILED)} failed")
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
