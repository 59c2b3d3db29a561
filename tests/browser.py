"""Pages in a real browser: Debian's Chromium, driven by Playwright.

A test asks for `open_page`. Whatever a page asks of anyone but its own address, every error in its
console (those of its Content-Security-Policy among them) and every exception fails the test.
"""

import os
import shutil
from urllib.parse import urlsplit

import pytest

CHROMIUM = os.environ.get("GRIDVEIL_CHROMIUM") or shutil.which("chromium")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
NARROW, WIDE = 360, 1280
# Every look that a page has: width in pixels, and whether it is dark.
LOOKS = [(width, dark) for width in (NARROW, WIDE) for dark in (False, True)]

# What is wider than its place (a table and each of its cells among it), words of a drawing that
# leave it or lie on one another, and cells whose label is not their column's name.
AMISS = """() => {
  const found = [], name = (one) => `${one.tagName} ${one.className.baseVal ?? one.className}`;
  const told = (why, one) =>
    found.push(`${why}: ${name(one)} "${one.textContent.trim().slice(0, 60)}"`);
  const root = document.documentElement;
  if (root.scrollWidth > window.innerWidth) found.push(`the page is ${root.scrollWidth} px wide`);
  const hidden = (one) => one.closest("thead, .unseen") && getComputedStyle(
    one.closest("thead, .unseen")).clipPath !== "none";
  for (const one of document.querySelectorAll("body *:not(svg *)")) {
    if (!one.offsetParent || hidden(one) || getComputedStyle(one).display.startsWith("inline"))
      continue;
    const own = ["SELECT", "INPUT", "IFRAME"].includes(one.tagName);
    if (!own && one.scrollWidth > one.clientWidth + 1)
      told(`${one.scrollWidth} in ${one.clientWidth} px`, one);
  }
  for (const svg of document.querySelectorAll("svg")) {
    const edge = svg.getBoundingClientRect();
    const all = [...svg.querySelectorAll("text")].map((one) => [one, one.getBoundingClientRect()]);
    all.forEach(([one, box], place) => {
      if (box.left < edge.left - 1 || box.right > edge.right + 1 || box.top < edge.top - 1 ||
          box.bottom > edge.bottom + 1) told("outside its drawing", one);
      for (const [other, its] of all.slice(0, place))
        if (box.left < its.right - 1 && its.left < box.right - 1 && box.top < its.bottom - 3 &&
            its.top < box.bottom - 3) told(`over "${other.textContent}"`, one);
    });
  }
  for (const table of document.querySelectorAll("table")) {
    const heads = [...(table.tHead?.rows[0]?.cells ?? [])].map((one) => one.textContent);
    for (const row of table.tBodies[0]?.rows ?? [])
      for (const [place, cell] of [...row.cells].entries())
        if (heads.length && cell.tagName === "TD" && cell.colSpan === 1 &&
            ![heads[place], ""].includes(cell.dataset.label)) told("without its label", cell);
  }
  return found;
}"""


@pytest.fixture(scope="session")
def chromium():
    """One browser, with a profile of its own, for all tests of a session."""
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium):
    """Open addresses in windows of their own, and see at the end that nothing was amiss.

    allowed : what requests may begin with; default: the address itself of a file, else its origin.
    expected : parts of console errors that the test provokes.
    """
    contexts, amiss = [], []

    def opened(url, *, width=WIDE, dark=False, allowed=None, expected=(), **more):
        allowed = allowed or _own(url)
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            **more,
        )
        contexts.append(context)

        def on_request(route):
            if route.request.url.startswith((allowed, "data:", "blob:")):
                route.continue_()
            else:
                amiss.append(f"a request to {route.request.url}")
                route.abort()

        def on_console(message):
            if message.type == "error" and not any(part in message.text for part in expected):
                amiss.append(f"console: {message.text}")

        context.route("**/*", on_request)
        page = context.new_page()
        page.on("console", on_console)
        page.on("pageerror", lambda error: amiss.append(f"exception: {error}"))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not amiss, amiss


def _own(url):
    parts = urlsplit(url)
    return url if parts.scheme == "file" else f"{parts.scheme}://{parts.netloc}/"


def faults(page):
    """What axe finds that is serious or critical, in words."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {one['help']} ({node['html'][:120]})"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def amiss_in(page):
    """What cannot be read on a page: wider than its place, cut, or over other words; in words.

    Frames that scroll sideways count as cut too.
    """
    return page.evaluate(AMISS)
