"""The site: every page has its place, every link leads somewhere, and it works from files."""

import fcntl
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import gridveil
from browser import LOOKS, NARROW, faults, needs_browser
from gridveil import GridveilError

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
BUILT = ROOT / "build" / "docs"
# Pages that a program writes, which does not wrap its lines.
WRITTEN = {"matpower-cases.md": "scripts/matpower_cases.py", "reproduction.md": "make reproduction"}
SHOWN = ("index", "tutorials/recipient", "reference/api-recipient")


# --- what is written ------------------------------------------------------------------------------


def named_in_toctrees():
    """Every page that a toctree names, as often as one does."""
    for page in sorted(DOCS.rglob("*.md")):
        for block in re.findall(
            r"^```\{toctree\}\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
        ):
            for line in block.splitlines():
                if line and not line.startswith(":"):
                    yield (page.parent / f"{line.strip()}.md").resolve().relative_to(DOCS)


def test_every_page_is_in_one_toctree():
    pages = sorted(page.relative_to(DOCS) for page in DOCS.rglob("*.md"))
    assert sorted(named_in_toctrees()) == [page for page in pages if page != Path("index.md")]


def test_every_public_name_has_its_entry_in_the_reference():
    text = "".join(page.read_text("utf-8") for page in DOCS.glob("reference/api-*.md"))
    names = re.findall(r"^\.\. auto\w+:: gridveil\.(\w+)$", text, re.MULTILINE)
    assert sorted(names) == sorted(gridveil.__all__)


def prose(page):
    """Numbered lines of a page that are running text."""
    fence, front = "", False
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if number == 1 and line == "---":
            front = True
        elif front:
            front = line != "---"
        elif fence:
            fence = "" if line.strip() == fence else fence
        elif opened := re.match(r" *(`{3,}|:{3,}|~{3,})\S", line + "x"):
            fence = opened[1] if opened[1][0] != ":" else ""
        elif not re.match(r" *(\||#|!\[|\[[^\]]+\]: )", line):
            yield number, line


@pytest.mark.parametrize(
    "page",
    [page for page in sorted(DOCS.rglob("*.md")) if page.name not in WRITTEN],
    ids=lambda page: str(page.relative_to(DOCS)),
)
def test_lines_of_prose_end_before_column_100(page):
    """A word that is longer, such as a link, may stand alone; tables, code and headings may too."""
    long = [
        f"{number}: {line}"
        for number, line in prose(page)
        if len(line) > 100 and " " in line.strip().lstrip("-*>0123456789. ")
    ]
    assert not long


# --- what is built --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site():
    """The site, built as `make docs` does; by one process at a time."""
    BUILT.parent.mkdir(exist_ok=True)
    with (BUILT.parent / "docs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", DOCS, BUILT],
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    return BUILT


class Page(HTMLParser):
    """What a page refers to, and the places in it that others may."""

    def __init__(self, path):
        super().__init__()
        self.links, self.assets, self.ids, self.titles = [], [], set(), []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        has = dict(attributes)
        self.ids.update(has[key] for key in ("id", "name") if has.get(key))
        if tag == "a" and has.get("href"):
            self.links.append(has["href"])
        elif tag in ("img", "script", "link", "source", "iframe"):
            self.assets += [has[key] for key in ("src", "href") if has.get(key)]
        if "glossed" in (has.get("class") or "").split():
            self.titles.append(has["title"])


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}


@pytest.mark.slow
def test_every_link_inside_the_site_leads_somewhere(pages):
    assert len(pages) > 50
    broken = []
    for path, page in pages.items():
        for link in (*page.links, *page.assets):
            parts = urlsplit(link)
            if parts.scheme:
                if link in page.links and re.fullmatch(r"https://[\w.-]+\.\w+(/\S*)?", link):
                    continue
                broken.append(f"{path.relative_to(BUILT)}: {link}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.is_file() or (anchor and anchor not in pages[target].ids):
                broken.append(f"{path.relative_to(BUILT)}: {link}")
    assert not broken


@pytest.mark.slow
def test_no_style_of_the_site_asks_for_another_host(site):
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", style.read_text("utf-8")), (
            style
        )


def below(kind):
    return {kind}.union(*(below(one) for one in kind.__subclasses__()))


@pytest.mark.slow
def test_commands_and_errors_are_all_there(site):
    from test_docs import PROGRAM, options_of

    commands = (site / "reference" / "cli.html").read_text("utf-8")
    words = set(re.sub(r"<[^>]*>", " ", commands).replace(",", " ").split())
    assert options_of(PROGRAM) - words <= {"--help"}
    errors = (site / "reference" / "errors.html").read_text("utf-8")
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    names = {"GridveilError"}
    while more := {
        name
        for name, base in re.findall(r"^class (\w+)\((\w+)\):", source, re.MULTILINE)
        if base in names and name not in names
    }:
        names |= more
    assert {one.__name__ for one in below(GridveilError) if "gridveil" in one.__module__} <= names
    assert [name for name in sorted(names) if f">{name}<" not in errors] == []


@pytest.mark.slow
def test_terms_explain_themselves(pages):
    told = " ".join(title for page in pages.values() for title in page.titles)
    for words in ("odds between two neighbouring grids", "Rate of change of frequency"):
        assert words in told
    for path, page in pages.items():
        assert len(page.titles) == len(set(page.titles)) or path.name == "glossary.html", path


@pytest.mark.slow
@needs_browser
def test_search_works_from_files(site, open_page):
    page = open_page((site / "index.html").as_uri(), allowed=site.as_uri())
    page.locator("button.search-button__button").first.click()
    page.locator("dialog input[type=search], .search-button__search-container input").first.fill(
        "nadir"
    )
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results ul.search li a")
    found = page.locator("#search-results ul.search li a")
    assert found.count() > 3
    found.first.click()
    page.wait_for_load_state()
    assert "nadir" in page.locator("article").inner_text().lower()


@pytest.mark.slow
@needs_browser
def test_a_term_shows_its_meaning_to_the_keyboard(site, open_page):
    page = open_page((site / "tutorials" / "owner.html").as_uri(), allowed=site.as_uri())
    term = page.locator("a.glossed").first
    page.keyboard.press("Tab")
    term.focus()
    shown = term.evaluate("one => getComputedStyle(one, '::after').content")
    assert term.get_attribute("title") in shown


@pytest.mark.slow
@needs_browser
def test_no_page_is_wider_than_a_telephone(site, pages, open_page):
    page = open_page((site / "index.html").as_uri(), width=NARROW, allowed=site.as_uri())
    wide = []
    for path in pages:
        page.goto(path.as_uri())
        if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
            wide.append(str(path.relative_to(site)))
    assert not wide


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_pages_have_no_serious_fault_for_those_who_see_or_move_otherwise(
    site, open_page, name, width, dark
):
    page = open_page(
        (site / f"{name}.html").as_uri(),
        width=width,
        dark=dark,
        allowed=site.as_uri(),
        # axe itself asks for the styles a second time, which a page opened as a file may not.
        expected=("CORS policy", "ERR_FAILED"),
    )
    assert faults(page) == []
