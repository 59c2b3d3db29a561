"""From a grid to a bundle: what is charged, when, and how often. Without a browser."""

import sys
from importlib import resources
from pathlib import Path
from threading import Thread

import pytest

from cli_helpers import gridveil
from gridveil.publication.bundle import verify
from gridveil.vault.source import Private
from gridveil.workflow.demo import write_demo_record
from gridveil.workflow.settings import ReleaseSettings
from measured_helpers import signal, write_csv, write_toml
from studio_helpers import events, go_on, serving


def yes(running, **more):
    name = running.studio.draft.id
    return name, running.ask("POST", "/release", {"id": name, "yes": "yes", **more})


def test_a_release_is_charged_once_whatever_is_posted(running, monkeypatch):
    """Two tabs, a reload in the middle, a page that is closed."""
    monkeypatch.setenv("GRIDVEIL_FAULT", "reduced:SIGSTOP")
    assert running.choose().getheader("Location") == "/release"
    assert "ε = 1 to the account ieee30" in running.ask("GET", "/release").text
    name, first = yes(running)
    assert first.getheader("Location") == f"/releases/{name}"
    _, second = yes(running)  # the other tab
    assert second.getheader("Location") == f"/releases/{name}"
    process = running.stopped(name)
    assert running.spent() == 1
    for _ in range(2):  # reloads
        assert "is being released" in running.ask("GET", f"/releases/{name}").text
    assert running.ask("GET", "/release").getheader("Location") == f"/releases/{name}"
    go_on(process)
    told = running.ask("GET", f"/releases/{name}/events").text
    assert "event: end" in told
    assert any(one.get("stage") for one in events(told))
    assert running.until(name)["state"] == "done"
    assert "the release was made" in running.ask("GET", f"/releases/{name}").text
    assert yes(running)[1].getheader("Location") == f"/releases/{name}"
    assert running.spent() == 1


def test_choices_changed_in_another_tab_are_not_released(running):
    running.choose()
    name = running.studio.draft.id
    running.ask("POST", "/hide", {"hide": "0", "epsilon": "5", "lineage": "ieee30", "then": "next"})
    answer = running.ask("POST", "/release", {"id": name, "yes": "yes"})
    assert answer.status == 422
    assert "The choices were changed" in answer.text
    assert "Nothing was drawn and nothing was spent" in answer.text
    assert running.spent() == 0


@pytest.mark.slow
def test_cancel_says_what_stays_spent(running, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_FAULT", "reduced:SIGSTOP")
    running.choose()
    name, _ = yes(running)
    process = running.stopped(name)
    Thread(target=lambda: (running.studio.jobs.get(name), go_on(process))).start()
    answer = running.ask("POST", f"/releases/{name}/cancel")
    while running.studio.jobs.get(name).runs:  # the signal may have come before the order to go on
        go_on(process)
    assert answer.status == 303
    page = running.ask("GET", f"/releases/{name}").text
    assert "the release was called off" in page
    assert "ε = 1 was charged to the lineage ieee30 and stays spent; there is no bundle." in page
    assert running.spent() == 1


def test_a_killed_process_and_a_killed_studio_leave_what_the_ledger_says(studio_of, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_FAULT", "charged")  # SIGKILL after the charge
    with serving(studio_of()) as running:
        running.choose()
        name, _ = yes(running)
        running.until(name)
    monkeypatch.delenv("GRIDVEIL_FAULT")
    with serving(studio_of()) as again:  # another studio, which knows nothing but the folders
        home = again.ask("GET", "/").text
        assert "It did not come about." in home
        assert "ε = 1 was charged and stays spent: the ledger has row" in home
        assert "There is no bundle." in home
        page = again.ask("GET", f"/releases/{name}").text
        assert "it was killed, or the machine went down" in page
        posted = again.ask("POST", "/release", {"id": name, "yes": "yes"})
        assert posted.getheader("Location") == f"/releases/{name}"
        assert again.spent() == 1


@pytest.mark.slow
def test_killed_before_the_charge_nothing_is_spent(running, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_FAULT", "opened")
    running.choose()
    name, _ = yes(running)
    running.until(name)
    page = running.ask("GET", f"/releases/{name}").text
    assert "nothing was spent: the ledger shows no charge since it began" in page
    assert running.spent() == 0


def test_wrong_files_epsilon_and_budget_are_told_and_spend_nothing(running):
    answer = running.ask("POST", "/grid", files=[("file", "grid.m", b"no grid at all")])
    assert answer.status == 422
    assert "grid.m" in answer.text
    assert running.ask("GET", "/hide").getheader("Location") == "/grid"  # step 2 stays closed
    assert running.ask("GET", "/release").getheader("Location") == "/grid"
    running.ask("POST", "/grid", {"name": "ieee30"})
    for wrong in ("nought", "0", "-1", ""):
        answer = running.ask("POST", "/hide", {"hide": "0", "epsilon": wrong, "then": "next"})
        assert answer.status == 422
        assert 'role="alert"' in answer.text
        assert running.ask("GET", "/release").getheader("Location") == "/hide"
    answer = running.ask("POST", "/hide/record", files=[("record", "r.csv", b"1,2")])
    assert "There is no TOML among these files" in answer.text
    running.choose()
    assert running.ask("POST", "/release", {"id": running.studio.draft.id}).status == 422  # no yes
    low = yes(running, budget="1/2")[1]
    assert "A budget of 1/2 does not cover" in low.text
    assert running.spent() == 0
    name, _ = yes(running)
    assert running.until(name)["state"] == "done"
    running.ask("POST", "/again")
    running.choose(epsilon="2")
    answer = running.ask("GET", "/release")
    assert answer.status == 422
    assert "does not cover ε = 2: 0 is left of ε = 1" in answer.text
    assert '<span class="whole">--epsilon</span>' in answer.text  # not broken at its hyphens
    assert "Nothing was drawn and nothing was spent" in answer.text
    assert "Charge and release" not in answer.text
    assert yes(running)[1].status == 422
    assert running.spent() == 1


def test_no_preview_opens_a_private_value(running, monkeypatch, tmp_path):
    """Steps 1 and 2, records and previews included, with values that raise when they are opened."""

    def never(private):
        raise AssertionError("a private value was opened before step 3")

    monkeypatch.setattr(Private, "open", staticmethod(never))
    time = [0.1 * n for n in range(200)]
    write_csv(tmp_path / "record.csv", time, 60 * (1 + signal(time)))
    toml = write_toml(tmp_path / "record.toml")
    parts = [("record", path.name, path.read_bytes()) for path in (toml, tmp_path / "record.csv")]
    for grid in ("ieee30", "andes:ieee14"):
        assert running.ask("POST", "/grid", {"name": grid}).status == 303
        assert running.ask("GET", "/grid").status == 200
        assert running.ask("GET", "/hide").status == 200
        for hide in range(len(running.studio.draft.ways)):
            asked = {"hide": hide, "epsilon": "1", "lineage": "x"}
            asked |= {"long": "yes"} if hide == 0 else {}  # the rest of a detailed one takes long
            answer = running.ask("POST", "/hide/preview", asked)
            assert answer.status == 200, answer.text
            assert "What the noise does to a typical table" in answer.text
            assert ("mHz</b> nadir" in answer.text) == (grid == "ieee30" or hide == 0)
        if grid == "ieee30":
            answer = running.ask("POST", "/hide/record", files=parts)
            assert answer.status == 303, answer.text
            page = running.ask("GET", "/hide").text
            assert "What it gives away by itself" in page
        answer = running.ask("POST", "/hide", {"hide": "0", "epsilon": "1", "then": "next"})
        assert answer.getheader("Location") == "/release"
    assert running.spent() == 0


@pytest.mark.slow
def test_the_toml_and_the_script_make_the_same_release(running, tmp_path, monkeypatch):
    running.choose(bounds="m=1:50", formats=["mat"])
    name, _ = yes(running, budget="3")
    assert running.until(name)["state"] == "done"
    toml = running.ask("GET", f"/releases/{name}/files/release.toml").text
    (tmp_path / "release.toml").write_text(toml)
    settings = ReleaseSettings.from_file(
        tmp_path / "release.toml", {"ledger": running.studio.ledger}
    )
    assert str(settings.epsilon) == "1"
    assert settings.formats == ("mat",)
    script = running.ask("GET", f"/releases/{name}/files/release.py").text
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRIDVEIL_LEDGER", running.studio.ledger)
    exec(compile(script, "release.py", "exec"), {})
    assert verify(tmp_path / "release.zip").epsilon == "1"
    assert running.spent() == 2
    page = running.ask("GET", "/ledger").text
    assert "Every row is as it was written." in page
    assert page.count("published") == 2
    export = running.ask("GET", f"/releases/{name}/files/export-mat.zip")
    assert export.status == 200
    assert running.ask("GET", f"/releases/{name}/files/..%2fjob.json").status == 404


@pytest.mark.slow
def test_a_demo_is_seeded_marked_and_charges_nothing(studio_of):
    with serving(studio_of(demo=True)) as running:
        running.choose()
        assert "DEMO: everything is seeded" in running.ask("GET", "/").text
        name, _ = yes(running)
        assert running.until(name)["state"] == "done"
        assert verify(running.studio.jobs.get(name).bundle).demo
        page = running.ask("GET", f"/releases/{name}").text
        assert "DEMO (made with a seed; protects nothing)" in page
        assert "There is no ledger yet" in running.ask("GET", "/ledger").text
        bundle = running.studio.jobs.get(name).bundle
        answer = running.ask(
            "POST", "/recipient", files=[("bundle", "b.zip", Path(bundle).read_bytes())]
        )
        assert answer.status == 303
        damaged = bytearray(Path(bundle).read_bytes())
        damaged[len(damaged) // 2] ^= 1
        answer = running.ask("POST", "/recipient", files=[("bundle", "b.zip", bytes(damaged))])
        assert answer.status == 422
        assert "This bundle does not verify" in answer.text


def test_a_file_is_read_with_what_lies_beside_it(running):
    cases = resources.files("gridveil.readers.cases")
    grid = ("file", "mine.m", cases.joinpath("ieee30.m").read_bytes())
    beside = ("beside", "mine.toml", cases.joinpath("ieee30.toml").read_bytes())
    alone = running.ask("POST", "/grid", files=[grid])
    assert "has no inertia" in alone.text
    assert running.ask("POST", "/grid", files=[grid, beside]).status == 303
    page = running.ask("GET", "/grid").text
    assert "mine.m: what was found" in page
    assert str(running.studio.uploads) not in page  # paths of this machine are not shown


def test_without_its_packages_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "starlette", None)
    done = gridveil("studio", "--no-browser")
    assert done.code == 2
    assert "pip install 'gridveil[studio]'" in done.err


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "./grid.m"])
def test_a_path_is_no_name_of_a_case(running, name):
    answer = running.ask("POST", "/grid", {"name": name})
    assert answer.status == 422
    assert "not by its path" in answer.text


@pytest.mark.slow
def test_a_fitted_release_is_replayed_signed_off_and_has_a_card(running, tmp_path):
    toml = write_demo_record(tmp_path)
    public = (
        toml.read_text(encoding="utf-8")
        .replace('origin = "simulated"', 'origin = "measured"\ndate = "2026-01-06"')
        .replace("[provenance]", "[provenance]\nlink = 'https://example.org/record'")
        .replace("source =", "event_source = 'the operator'\nsource =")
    )
    assert running.choose().status == 303
    files = [("record", "record.toml", public.encode())]
    files.append(("record", "demo-record.csv", (tmp_path / "demo-record.csv").read_bytes()))
    answer = running.ask("POST", "/hide/record", files=files)
    assert answer.status == 303, answer.text
    running.ask("POST", "/hide", {"then": "next"})
    assert "Conditional on: gridveil studio --demo" in running.ask("GET", "/release").text
    name, _ = yes(running)
    assert running.until(name)["state"] == "done"
    assert running.spent() == 1
    place = f"/releases/{name}"
    page = running.ask("GET", place).text
    assert "What the record gives away" in page
    assert f'src="{place}/files/card.html"' in page
    card = running.ask("GET", f"{place}/files/card.html")
    assert card.status == 200
    assert card.getheader("Content-Security-Policy").startswith("sandbox")
    used = running.ask("POST", f"{place}/use").getheader("Location")
    shown = running.ask("GET", used).text
    assert "Fitted leaves, RMS [mHz]" in shown
    assert "Record 1 at G1: uniform:20.0%" in shown
    assert running.ask("POST", f"{place}/signoff").getheader("Location") == f"{place}-signoff"
    assert running.until(f"{name}-signoff", 200)["state"] == "done"
    told = running.ask("GET", f"{place}-signoff/files/signoff.html")
    assert told.status == 200
    assert "onfidential" in told.text
    assert running.spent() == 1
    assert running.ask("GET", "/").text.count("Made.") == 1  # a sign-off page is no release
