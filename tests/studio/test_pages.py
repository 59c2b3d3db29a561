"""The studio in a real browser: requests elsewhere and errors in the console fail a test."""

import os
import re
import signal
import subprocess
import sys
from fractions import Fraction
from importlib.resources import files
from io import BytesIO

import pytest
from matplotlib.image import imread

from browser import LOOKS, NARROW, amiss_in, faults, needs_browser
from cli_helpers import gridveil
from studio_helpers import go_on, serving

pytestmark = needs_browser
FITTING = re.compile("fitting|drawing error bars")  # the bars of a fit are fits themselves
HOSTILE = "<img src=x onerror=document.title='owned'>"


def fits(page):
    """Nothing is cut or overlaps in a narrow window: no page and no table scrolls sideways."""
    size = page.viewport_size
    page.set_viewport_size({"width": NARROW, "height": 800})
    for _ in range(50):  # its layout may come a moment after
        if not amiss_in(page):
            break
        page.wait_for_timeout(100)
    assert amiss_in(page) == []
    page.set_viewport_size(size)


def colours_of_card(page):
    """Colours of the chart in the frame that holds a release's card, as they are seen."""
    page.locator("iframe").scroll_into_view_if_needed()
    frame = page.frame_locator("iframe")
    frame.locator("html[data-ready]").wait_for(timeout=60_000)
    chart = frame.locator("#chart svg")
    chart.scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    seen = imread(BytesIO(chart.screenshot()))
    return {tuple(pixel) for pixel in seen.reshape(-1, seen.shape[-1]).round(2).tolist()}


def test_a_card_is_seen_in_its_frame(running, open_page):
    running.choose()
    name = running.studio.draft.id
    running.ask("POST", "/release", {"id": name, "yes": "yes"})
    assert running.until(name)["state"] == "done"
    page = open_page(running.keys.link, width=NARROW, dark=True)
    page.goto(f"{running.url}/releases/{name}")
    assert len(colours_of_card(page)) > 20
    frame = page.locator("iframe").bounding_box()
    chart = page.frame_locator("iframe").locator("#chart").bounding_box()
    # as the frame opens, not scrolled inside
    assert frame["y"] < chart["y"] and chart["y"] + 200 < frame["y"] + frame["height"]


def step_2(page):
    page.get_by_role("link", name="Choose a grid").click()
    page.get_by_role("button", name="ieee30").click()
    page.get_by_role("heading", name="ieee30: what was found").wait_for()
    page.get_by_role("link", name="Next: what to hide").click()


def test_the_whole_way_from_ieee30_to_a_bundle_that_verifies(running, open_page, tmp_path):
    page = open_page(running.keys.link, expected=("422",))
    fits(page)
    page.get_by_role("link", name="Choose a grid").click()
    page.get_by_role("button", name="ieee30").click()
    page.get_by_role("img", name="The network of ieee30: 30 buses").wait_for()
    fits(page)
    page.get_by_role("link", name="Next: what to hide").click()
    page.locator("#preview", has_text="nine of ten releases at ε = 1").wait_for()
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowLeft")  # more private
    page.locator("#preview", has_text="nine of ten releases at ε = 1/2").wait_for()
    page.get_by_role("img", name="Error of the nadir on the surrogate").wait_for()
    assert "ε\n1/2" in page.get_by_role("complementary").inner_text()  # the column of choices
    fits(page)
    page.get_by_role("button", name="Next: the release").click()
    page.get_by_text("ε = 1/2 to the account ieee30").wait_for()
    fits(page)
    assert running.spent() == 0
    page.get_by_role("checkbox", name="Yes: charge").check()
    page.get_by_role("button", name="Charge and release").click()
    page.get_by_role("heading", name="ieee30: the release was made").wait_for(timeout=90_000)
    card = page.frame_locator("iframe.card")  # until it is there, a busy studio serves nothing else
    card.get_by_role("heading", level=1).wait_for(timeout=90_000)
    fits(page)
    with page.expect_download() as got:
        page.get_by_role("link", name="The bundle (zip)").click()
    bundle = tmp_path / "bundle.zip"
    got.value.save_as(bundle)
    done = gridveil("verify", bundle)
    assert done.code == 0, done.err
    assert "real release, ε = 1/2" in done.out
    page.get_by_role("link", name="Ledger", exact=True).click()
    page.get_by_role("cell", name="published").wait_for()
    fits(page)
    # The recipient's page, with the same bundle.
    page.get_by_role("link", name="Use a bundle", exact=True).click()
    fits(page)
    page.get_by_label("Drop a bundle here").set_input_files(bundle)
    page.get_by_role("button", name="Verify it").click()
    page.get_by_text("Intact.").wait_for()
    page.get_by_label("Event").fill("load:G2=+0.2@1s")
    page.get_by_role("button", name="Simulate").click()
    page.get_by_role("img", name="Frequency after load:G2=+0.2@1s").wait_for()
    assert "80 %:" in page.content()
    fits(page)
    page.get_by_label("Event").fill("load:G99=+0.2")
    with page.expect_response(lambda answer: answer.status == 422):
        page.get_by_role("button", name="Simulate").click()
    page.get_by_role("alert").wait_for()
    with page.expect_download() as got:
        page.get_by_role("link", name="For csv").click()
    assert got.value.suggested_filename.endswith("-csv.zip")
    assert running.spent() == Fraction(1, 2)


def test_names_of_files_and_grids_cannot_inject(running, open_page, tmp_path):
    hostile = tmp_path / f"{HOSTILE}.m"
    hostile.write_bytes(files("gridveil.readers.cases").joinpath("star5.m").read_bytes())
    expected = ("422",)
    page = open_page(running.keys.link, expected=expected)
    page.goto(f"{running.url}/grid")
    page.get_by_label("or a file").set_input_files(hostile)
    page.get_by_text("What the file does not say").click()
    for name in ("Inertia", "Damping"):
        page.get_by_label(name).fill("10")
    page.get_by_role("button", name="Read the grid").click()
    page.get_by_role("heading", name=f"{HOSTILE}.m: what was found").wait_for()
    for path in ("grid", "hide", ""):
        page.goto(f"{running.url}/{path}")
        assert page.title() != "owned"
        assert page.locator("img[src=x]").count() == 0
    bad = tmp_path / f"{HOSTILE}.zip"
    bad.write_bytes(b"no zip")
    page.goto(f"{running.url}/recipient")
    page.get_by_label("Drop a bundle here").set_input_files(bad)
    page.get_by_role("button", name="Verify it").click()
    page.get_by_text("This bundle does not verify").wait_for()
    assert page.title() != "owned"
    assert page.locator("img[src=x]").count() == 0


def test_an_upload_over_the_limit_is_told_before_it_is_sent(running, open_page, tmp_path):
    large = tmp_path / "large.m"
    with large.open("wb") as file:
        file.truncate(2**27 + 1)
    page = open_page(running.keys.link)
    page.goto(f"{running.url}/grid")
    page.get_by_label("or a file").set_input_files(large)
    page.get_by_role("button", name="Read the grid").click()
    page.get_by_text("This upload is larger than 128 MiB. It was not sent.").wait_for()


@pytest.mark.slow
def test_cancel_reload_and_two_tabs_in_the_middle_of_a_fit(studio_of, open_page, monkeypatch):
    """A demo with its record, held just before its fit while pages come and go; then a real process
    is cancelled in it.
    """
    with serving(studio_of(demo=True)) as running:
        page = open_page(running.keys.link)
        step_2(page)
        page.get_by_role("button", name="Use the demo's record").click()
        page.get_by_text("What it gives away by itself").wait_for(timeout=60_000)
        fits(page)
        page.get_by_role("button", name="Next: the release").click()
        page.get_by_role("checkbox").check()
        other = page.context.new_page()
        other.goto(f"{running.url}/release")
        other.get_by_role("checkbox").check()
        monkeypatch.setenv("GRIDVEIL_FAULT", "reduced:SIGSTOP")
        name = running.studio.draft.id
        page.get_by_role("button", name="Make the demo").click()
        other.get_by_role("button", name="Make the demo").click()
        process = running.stopped(name)
        for one in (page, other):
            one.locator("#stage").wait_for(timeout=90_000)
        fits(page)
        page.reload()
        page.locator("#stage").wait_for(timeout=90_000)
        assert len(list(running.studio.jobs.all())) == 1
        go_on(process)
        page.locator("#stage", has_text=FITTING).wait_for(timeout=90_000)
        os.kill(process, signal.SIGSTOP)  # a quick machine would be done before the click
        page.get_by_role("button", name="Cancel").click()
        go_on(process)
        page.get_by_role("heading", name="the release was called off").wait_for(timeout=60_000)
        other.get_by_role("heading", name="the release was called off").wait_for(timeout=60_000)


@pytest.mark.slow
def test_a_closed_browser_and_a_killed_studio_charge_once(open_page, tmp_path, monkeypatch):
    """The command itself, killed in mid-release; the release goes on, and a new studio tells."""
    home = tmp_path / "home"
    env = os.environ | {"GRIDVEIL_HOME": str(home), "GRIDVEIL_FAULT": "reduced:SIGSTOP"}
    env["GRIDVEIL_WITNESS"] = str(tmp_path / "witness.sqlite")
    command = [
        sys.executable,
        "-c",
        "from gridveil.cli import main; main()",
        "studio",
        "--no-browser",
    ]

    def started():
        process = subprocess.Popen(
            command, env=env, cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        return process, process.stdout.readline().split()[-1]

    first, link = started()
    page = open_page(link, expected=("ERR_",))
    step_2(page)
    page.get_by_role("button", name="Next: the release").click()
    page.get_by_role("checkbox", name="Yes: charge").check()
    page.get_by_role("button", name="Charge and release").click()
    page.locator("#stage", has_text="sharing the loads out").wait_for(timeout=60_000)
    name = page.url.rpartition("/")[2]
    worker = int((home / "studio" / name / "pid").read_text())
    first.stdout.readline()
    again = first.stdout.readline().split()[-1]  # the link for another browser
    page.context.close()  # the browser is closed
    page = open_page(again, expected=("ERR_",))
    page.get_by_text("It is being made.").wait_for()
    page.goto(f"{page.url}releases/{name}")
    first.send_signal(signal.SIGKILL)
    first.wait()
    page.get_by_text("The studio does not answer.").wait_for()
    go_on(worker)
    second, link = started()
    page = open_page(link)
    page.get_by_role("link", name="ieee30").first.click()
    page.get_by_role("heading", name="ieee30: the release was made").wait_for(timeout=60_000)
    page.get_by_role("link", name="Ledger", exact=True).click()
    assert page.get_by_role("cell", name="published").count() == 1
    page.context.close()  # before the studio: it would go on asking
    second.send_signal(signal.SIGINT)
    assert second.wait(timeout=20) == 0
    for process in (first, second):
        process.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_every_page_in_every_look_has_no_serious_fault(
    studio_of, open_page, monkeypatch, width, dark
):
    with serving(studio_of(demo=True)) as running:
        page = open_page(running.keys.link, width=width, dark=dark, expected=("404",))

        def sound(path, shown):
            page.goto("about:blank")  # a page that follows a release moves on by itself
            page.goto(f"{running.url}{path}")
            page.locator(shown).first.wait_for(timeout=60_000)
            assert faults(page) == []
            assert amiss_in(page) == []

        running.choose()
        running.ask("POST", "/hide/record", {"then": "demo"})
        sound("/", "h1")
        sound("/grid", "svg.network")
        sound("/hide", "#preview svg.chart")
        running.ask("POST", "/hide", {"then": "next"})
        sound("/release", "text=The last yes")
        name = running.studio.draft.id
        monkeypatch.setenv("GRIDVEIL_FAULT", "reduced:SIGSTOP")
        running.ask("POST", "/release", {"id": name, "yes": "yes"})
        process = running.stopped(name)
        sound(f"/releases/{name}", "#stage")
        go_on(process)
        running.until(name)
        sound(f"/releases/{name}", "text=Download")
        assert len(colours_of_card(page)) > 20  # lines and bands, and their edges
        used = running.ask("POST", f"/releases/{name}/use").getheader("Location")
        sound(used, "svg.chart")
        assert page.get_by_role("img", name="Record 1 at").count() == 3  # a demo's is replayed too
        sound("/ledger", "h1")
        sound("/recipient", "text=Dropped so far")
        sound("/nowhere", "text=There is no such page")
