"""gridveil signoff: one confidential page, whose verdict no private value has a part in, with the
figures that its JSON has.
"""

import json
import pickle
import shutil
import stat
import subprocess
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np
import pytest

from browser import LOOKS, NARROW, amiss_in, faults, needs_browser
from cli_helpers import found_in, gridveil, make_release, write_grid
from detailed_releases import demo as detailed_demo
from detailed_releases import detailed
from gridveil import Adjacency, Bounds, DemoSampler, Event, publish, simulate
from gridveil.assurance.owner_report import assess, attacks, redraws
from gridveil.assurance.owner_report.fidelity import PUBLIC, RELEASE, SIMPLEST, assess_fidelity
from gridveil.assurance.owner_report.signoff import CONFIDENTIAL
from gridveil.assurance.owner_report.signoff_page import signoff
from gridveil.foundation.errors import BundleError, InputError, PrivateValueError
from gridveil.inference.fit import Observation, controls
from gridveil.privacy.allocation import ITEMS
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.provenance import Provenance
from gridveil.publication.release import neutral
from gridveil.readers.cases import open_grid
from gridveil.vault.source import Private
from gridveil.vault.truth import true_full_model, true_model
from gridveil.workflow.publish import share_out

ONE = Fraction(1)
HOSTILE = "<img src=x onerror=alert(1)>"
SECTIONS = [
    "Budget",
    "ε of each group, and of all",
    "The guarantee, and its noise",
    "Not protected",
    "Trajectories: where they come from, what they give away",
    "The fit guard’s verdict",
    "Attacks on this release",
    "Fidelity on events that no fit saw",
    "Share clipped",
    "The files that leave",
    "Signed off by",
]
SAW_THE_GRID = ["Attacks on this release", "Fidelity on events that no fit saw"]
PUBLIC_PARTS = [
    "leaves",
    "budget",
    "epsilon",
    "guarantee",
    "not_protected",
    "public_inputs",
    "records",
    "fit",
    "selection",
    "verdict",
]


class Read(HTMLParser):
    """A page's headings with their marks, and its tables by their names."""

    def __init__(self, page):
        super().__init__()
        self.headings, self.tables, self._rows, self._cell, self._heading = [], {}, None, None, None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        if tag == "table":
            self._rows = self.tables.setdefault(named["aria-label"], [])
        elif tag == "tr" and self._rows is not None:
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")
            self._cell = True
        elif tag == "h2":
            self.headings.append(["", ""])
            self._heading = 0
        elif tag == "span" and self._heading is not None:
            self._heading = 1

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._cell = None
        elif tag == "h2":
            self._heading = None

    def handle_data(self, data):
        if self._cell:
            self._rows[-1][-1] += data.replace("−", "-").replace("\u00a0", " ")
        elif self._heading is not None:
            self.headings[-1][self._heading] += data

    def table(self, beginning):
        (found,) = (rows for name, rows in self.tables.items() if name.startswith(beginning))
        return found[1:]


@pytest.fixture(scope="module", autouse=True)
def short():
    """Few draws and starts: their figures are for other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redraws, "DRAWS", 1)
        patch.setattr(redraws, "RELEASES", (1, 3))
        patch.setattr(assess, "RELEASES", (1, 3))
        patch.setattr("gridveil.assurance.owner_report.detailed.RELEASES", (1, 3))
        patch.setattr(redraws, "SINGLE_DRAWS", 1)
        patch.setattr("gridveil.assurance.owner_report.detailed.SINGLE_DRAWS", 1)
        patch.setattr(attacks, "ADVANTAGE_DRAWS", 500)
        patch.setattr(controls, "STARTS", 1)
        yield


def charged(folder, ledger, **more):
    """A real release of private.m, from a ledger."""
    settings = {"allocation": ITEMS, "adjacency": Adjacency(), "bounds": Bounds(), **more}
    source = open_grid(str(write_grid(folder)))
    return publish(source, epsilon=ONE, ledger=ledger, **settings)


def written(folder, kind, bundle, source, ledger=None):
    report = signoff(bundle, source, ledger)
    report.write(folder / f"{kind}.html")
    return report.to_json(), (folder / f"{kind}.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Reports of every kind: the document and the page."""
    found, folder = {}, tmp_path_factory.mktemp("signoff")

    def make(kind):
        if kind not in found:
            here = folder / kind
            here.mkdir()
            found[kind] = KINDS[kind](here)
        return found[kind]

    return make


def _swing(here):
    ledger = Ledger(here / "ledger.sqlite")
    ledger.set_budget("private.m", Adjacency(), Fraction(3))
    charged(here, ledger).save(here / "first")
    charged(here, ledger).save(here / "bundle")
    return written(here, "swing", here / "bundle", open_grid(str(here / "private.m")), ledger)


def _topology(here):
    source = open_grid(str(write_grid(here)))
    hidden = share_out(source.facts, Adjacency(), ONE, Bounds(), mechanism="topology")
    charged(here, Ledger(here / "ledger.sqlite"), allocation=hidden).save(here / "bundle.zip")
    return written(here, "topology", here / "bundle.zip", source)


def _fitted(here):
    """Fitted to a record that the bundle carries, from a source with a hostile name."""
    source, event = open_grid("star5"), Event.load({"5": 0.1}, at_s=1)
    seen = simulate(true_model(source), event, horizon_s=5, dt_s=0.05, buses=("1", "4"))
    noise = 1e-5 * np.random.default_rng(0).standard_normal(seen.omega.shape)
    seen = replace(seen, omega=seen.omega + noise)
    origin = Provenance("measured", HOSTILE, "2016-01-06", "https://example.org/r", "its operator")
    record = Observation(event, seen, origin, redistribute=True)
    settings = {"epsilon": ONE, "adjacency": Adjacency(), "bounds": Bounds(), "ledger": None}
    made = publish(source, [record], **settings, sampler=DemoSampler(1), error_bars=False)
    made.save(here / "bundle")
    return written(here, "fitted", here / "bundle", source)


def _demo(here):
    make_release(here, demo=True).save(here / "bundle")
    return written(here, "demo", here / "bundle", open_grid(str(here / "private.m")))


def _detailed(here):
    detailed_demo(error_bars=True).save(here / "bundle")
    return written(here, "detailed", here / "bundle", detailed())


KINDS = {
    "swing": _swing,
    "topology": _topology,
    "fitted": _fitted,
    "demo": _demo,
    "detailed": _detailed,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_every_section_in_order_with_its_mark(made, kind):
    document, page = made(kind)
    read = Read(page)
    assert [words for words, _ in read.headings] == SECTIONS
    marked = [words for words, mark in read.headings if "saw the grid" in mark]
    assert marked == SAW_THE_GRID
    assert document["confidential"] == CONFIDENTIAL and CONFIDENTIAL in page
    assert document["demo"] == ("DEMO." in page) == (kind in ("demo", "detailed", "fitted"))
    assert document["fidelity"]["events"] and document["attacks"]["all_but_one"]
    json.dumps(document, allow_nan=False)


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_has_the_figures_of_the_json(made, kind):
    document, page = made(kind)
    read = Read(page)
    assert read.table("Files") == [
        [file["name"], str(file["bytes"]), file["sha256"]] for file in document["leaves"]["files"]
    ]
    for row, event in zip(read.table("Nadir of"), document["fidelity"]["events"], strict=True):
        errors = [event["errors"][name] for name in (RELEASE, PUBLIC, SIMPLEST)]
        figures = [event["nadir_mhz"], *(one["nadir_mhz"] for one in errors)]
        figures += [one["rms_mhz"] for one in errors]
        assert [float(cell) for cell in row[1:8]] == pytest.approx(figures, abs=0.0501)
        if event["inside"] is None:
            assert row[8] == "no band"
        else:
            assert float(row[8].rstrip(" %")) == pytest.approx(100 * event["inside"], abs=0.501)
    for row, mode in zip(read.table("Modes"), document["fidelity"]["modes"], strict=True):
        assert float(row[0]) == pytest.approx(mode["hz"], abs=5e-4)
    groups = document["epsilon"]["groups"]
    joint = document["epsilon"]["joint"]
    shown = [[row[3], float(row[4])] for row in read.table("Privacy loss")]
    assert shown == [
        *([row["epsilon"], pytest.approx(row["charged"], rel=1e-5)] for row in groups),
        [joint["asked"], pytest.approx(joint["charged"], rel=1e-5)],
    ]
    for row, own in zip(read.table("Noisy values"), groups, strict=True):
        assert [int(row[1]), int(row[2])] == [own["values"], own["clipped"]]
    checks = [[one["point"], one["words"]] for one in document["verdict"]["checks"]]
    assert [[row[0], row[2]] for row in read.table("Checks")] == checks


def test_the_budget_is_the_ledgers_before_now_and_left(made):
    document, page = made("swing")
    budget = document["budget"]
    figures = [budget[name] for name in ("before", "charged", "after", "now", "left")]
    assert figures == pytest.approx([1, 1, 2, 2, 1]) and budget["epsilon"] == "3"
    assert budget["noted"] and budget["problems"] == [] and budget["draws"] == 2
    assert [float(row[1]) for row in Read(page).table("Account")] == [3, 1, 1, 2, 2, 1]
    # unsigned, and all else in order; how much lies on bounds is for real noise to say
    grades = {one["point"]: one["grade"] for one in document["verdict"]["checks"]}
    doubted = [point for point in ("signature", "bounds") if grades[point] == "doubtful"]
    assert doubted[0] == "signature"
    assert grades == dict.fromkeys(grades, "good") | dict.fromkeys(doubted, "doubtful")
    assert document["verdict"]["words"] == f"Look at this before you sign: {', '.join(doubted)}."


def test_without_its_ledger_the_certificates_figures_are_said_to_be_its_own(made, tmp_path):
    document, page = made("topology")
    assert not document["budget"]["known"] and "certificate" in document["budget"]["words"]
    assert "spent before" not in page
    bundle = tmp_path / "bundle"
    charged(tmp_path, Ledger(tmp_path / "own.sqlite")).save(bundle)
    other = Ledger(tmp_path / "other.sqlite")
    found = signoff(bundle, open_grid(str(tmp_path / "private.m")), other).to_json()["budget"]
    assert not found["known"] and "does not know this bundle" in found["words"]


def test_a_record_that_the_bundle_carries_is_judged_and_controls_are_fitted_to_it(made):
    document, page = made("fitted")
    records = document["records"]
    assert records["leakage"]["values"] > 0 and records["words"].split(":")[0] in page
    assert "fitted to the public records" in document["fidelity"]["models"][SIMPLEST]
    assert document["fit"]["grade"] in ("good", "doubtful", "discarded")
    has = [row["attacker_has"] for row in document["attacks"]["with_trajectories"]]
    assert has[:2] == ["blind", "the trajectories"]
    # its event was at bus 5, which is L1
    assert "L1" not in [row["place"] for row in document["fidelity"]["events"]]


def test_a_zip_is_named_by_its_own_hash_too(made):
    document, page = made("topology")
    assert document["leaves"]["archive_sha256"] in page
    assert document["leaves"]["ports_for_load"] == 1


def test_a_demo_is_not_to_be_published(made):
    document, _ = made("demo")
    assert document["verdict"]["grade"] == "bad"
    assert document["verdict"]["words"] == "Do not publish this bundle: demo."


def test_no_private_value_has_a_part_in_the_verdict_or_any_public_section(made, tmp_path):
    """The same bundle beside two grids with the same public facts."""
    make_release(tmp_path, demo=True).save(tmp_path / "bundle")
    documents = []
    for name, x in (("one", 1.0), ("other", 1.4)):
        changed = [f"{x * value:.6f}" for value in (0.1, 0.21, 0.14, 0.19, 0.12, 0.17)]
        inertia = [str(x * value) for value in (10, 14, 19)]
        path = write_grid(tmp_path / name, x=changed, m=inertia)
        documents.append(signoff(tmp_path / "bundle", open_grid(str(path)), None).to_json())
    one, other = documents
    assert one["fidelity"] != other["fidelity"]
    for part in PUBLIC_PARTS:
        assert one[part] == other[part], part


def test_a_grid_that_was_read_with_other_options_is_noticed(tmp_path):
    """Options that set what is private: nothing public tells them apart."""
    path = write_grid(tmp_path)
    settings = {"epsilon": ONE, "adjacency": Adjacency(), "bounds": Bounds(), "ledger": None}
    source = open_grid(str(path))
    made = publish(source, **settings, sampler=DemoSampler(1))
    made.save(tmp_path / "bundle")
    others = write_grid(tmp_path / "other", d=["35.1", "36.2", "37.3"])
    words = "Σd is further from the grid's own than its noise explains"
    for grid, noticed in ((path, False), (others, True)):
        report = signoff(tmp_path / "bundle", open_grid(str(grid)), None)
        document = report.to_json()
        assert any(words in note for note in document["attacks"]["unlike"]) == noticed
        assert not any("Σm" in note for note in document["attacks"]["unlike"])


def test_no_single_private_value_is_written_down(made, tmp_path):
    document, page = made("swing")
    for name, values in open_grid(str(write_grid(tmp_path))).values.items():
        for data in (json.dumps(document), page):
            assert found_in(data.encode(), Private.open(values)) == [], name


def test_names_of_others_stay_text(made, tmp_path):
    bundle, lineage = tmp_path / "<script>alert(1)<", f"{HOSTILE}'\""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    charged(tmp_path, ledger, lineage=lineage).save(bundle)
    source = open_grid(str(tmp_path / "private.m"))
    document, page = written(tmp_path, "hostile", bundle, source, ledger)
    assert lineage in document["budget"]["words"] and "&lt;script&gt;" in page
    for shown in (page, made("fitted")[1]):  # of a bundle and a lineage, and of a record
        assert "<script" not in shown and "<img" not in shown
        assert "&lt;img src=x onerror=alert(1)&gt;" in shown


# --- fidelity against oracles ---------------------------------------------------------------------


def test_a_release_of_the_truth_itself_is_not_off(tmp_path):
    source, made = open_grid(str(write_grid(tmp_path))), make_release(tmp_path, demo=True)
    exact = replace(made, model=neutral(true_model(source), source.facts), ensemble=None)
    found = Private.open(assess_fidelity(source, exact))
    for row in found.events:
        assert list(vars(row.errors[RELEASE]).values()) == pytest.approx([0] * 4, abs=1e-6)
        assert row.errors[PUBLIC].rms_mhz > 0.1 and row.inside is None
    for row in found.modes:
        assert row.errors[RELEASE] == pytest.approx((0, 0), abs=1e-6)


@pytest.mark.parametrize("merged", [False, True])
def test_what_the_grid_answers_is_the_full_models_answer(tmp_path, merged):
    source = open_grid(str(write_grid(tmp_path)))
    settings = {"epsilon": ONE, "adjacency": Adjacency(), "bounds": Bounds(), "ledger": None}
    ports = [np.array([0, 1])] if merged else None
    made = publish(source, **settings, sampler=DemoSampler(1), allocation=ITEMS, ports=ports)
    found = Private.open(assess_fidelity(source, made))
    rows = {row.place: row for row in found.events}
    assert set(rows) <= set(made.model.ports) and len(rows) == len(made.model.ports)
    full, size = true_full_model(source), rows["L1"].step_mw / 100
    shares = {"4": 0.5, "5": 0.5} if merged else {"4": 1.0}
    event = Event.load({bus: size * share for bus, share in shares.items()})
    run = simulate(full, event, horizon_s=30, dt_s=0.02, buses=("1", "2", "3"))
    m = Private.open(source.values["m"])
    system = 60_000 * run.omega @ m / m.sum()
    assert rows["L1"].nadir_mhz == pytest.approx(system.min(), rel=1e-3)


def test_a_detailed_release_is_nearer_than_public_facts(made):
    document, _ = made("detailed")
    rows = document["fidelity"]["events"]
    worst = {
        name: max(row["errors"][name]["rms_mhz"] for row in rows) for name in (RELEASE, PUBLIC)
    }
    assert 0 < worst[RELEASE] < worst[PUBLIC]
    assert all(0 <= row["inside"] <= 1 for row in rows)


# --- the file, and the command --------------------------------------------------------------------


@pytest.fixture
def bundle(tmp_path):
    make_release(tmp_path, demo=True, epsilon=ONE).save(tmp_path / "bundle")
    return tmp_path / "bundle"


def command(bundle, *options):
    return gridveil("signoff", bundle, "--source", bundle.with_name("private.m"), *options)


def test_the_command_writes_a_page_for_its_owner_and_says_so(bundle, tmp_path):
    done = command(bundle, "--out", tmp_path / "s.html")
    assert done.code == 0, done.err
    assert "CONFIDENTIAL" in done.out and "CONFIDENTIAL" in done.err
    assert "Verdict  Do not publish this bundle: demo." in done.out
    assert stat.S_IMODE((tmp_path / "s.html").stat().st_mode) == 0o600
    again = command(bundle, "--out", tmp_path / "s.html")
    assert (again.code, "exists already" in again.err) == (2, True)


def test_json_is_the_document_of_the_page(bundle, tmp_path):
    done = command(bundle, "--json", "--out", tmp_path / "s.html")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert found["confidential"] == CONFIDENTIAL and found["report"] == str(tmp_path / "s.html")
    assert found["leaves"]["digest"] in (tmp_path / "s.html").read_text()


@pytest.mark.parametrize("place", ["inside.html", "deep/inside.html"])
def test_a_place_inside_a_bundle_is_refused(bundle, place):
    before = sorted(bundle.rglob("*"))
    done = command(bundle, "--out", bundle / place)
    assert (done.code, "inside a bundle, which is public" in done.err) == (2, True)
    assert sorted(bundle.rglob("*")) == before


def test_nothing_is_written_where_anything_is_wrong(bundle, tmp_path):
    out = ("--out", tmp_path / "s.html")
    assert gridveil("signoff", bundle, "--source=star5", *out).code == 2
    assert gridveil("signoff", bundle, "--source=nowhere.m", *out).code == 2
    missing = command(bundle, *out, "--ledger", tmp_path / "none.sqlite")
    assert (missing.code, "none.sqlite" in missing.err) == (2, True)
    (bundle / "README.md").write_text("changed")
    done = command(bundle, *out)
    assert (done.code, "README.md" in done.err) == (1, True)
    assert not (tmp_path / "s.html").exists()


def test_the_library_refuses_the_same(bundle, tmp_path):
    with pytest.raises(InputError):
        signoff(bundle, open_grid("star5"), None)
    (bundle / "README.md").unlink()
    with pytest.raises(BundleError):
        signoff(bundle, open_grid(str(tmp_path / "private.m")), None)


def test_a_report_refuses_to_be_seen_other_than_by_its_two_doors(bundle, tmp_path):
    report = signoff(bundle, open_grid(str(tmp_path / "private.m")), None)
    assert repr(report) == "<Signoff bundle: CONFIDENTIAL>"
    for look in (pickle.dumps, json.dumps):
        with pytest.raises((PrivateValueError, TypeError)):
            look(report)


# --- in a browser, and on paper -------------------------------------------------------------------


@pytest.fixture
def shown(made, open_page, tmp_path):
    """Open the page of a kind."""

    def opened(kind, **look):
        (tmp_path / "page.html").write_text(made(kind)[1], encoding="utf-8")
        return open_page((tmp_path / "page.html").as_uri(), **look)

    return opened


@needs_browser
@pytest.mark.parametrize(
    ("kind", "width", "dark"), [*(("swing", *look) for look in LOOKS), ("detailed", NARROW, False)]
)
def test_the_page_stands_alone_and_is_marked_on_every_screen(shown, kind, width, dark):
    page = shown(kind, width=width, dark=dark)
    assert amiss_in(page) == [] and faults(page) == []
    for share in (0, 0.5, 1):
        page.evaluate(f"window.scrollTo(0, {share} * document.body.scrollHeight)")
        box = page.locator(".secret").bounding_box()
        assert box["y"] == 0 and "CONFIDENTIAL" in page.inner_text(".secret")


@needs_browser
@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="pdftotext is not installed")
@pytest.mark.parametrize("kind", ["swing", "detailed"])
def test_every_printed_page_is_marked_and_holds_what_the_screen_does(shown, kind, tmp_path):
    page = shown(kind)
    page.pdf(path=tmp_path / "page.pdf", prefer_css_page_size=True)
    command = ["pdftotext", "-layout", tmp_path / "page.pdf", "-"]
    printed = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    *pages, rest = printed.split("\f")
    assert len(pages) >= 4 and not rest.strip()
    assert all("CONFIDENTIAL: for the owner of the grid alone" in one for one in pages)
    assert f"{len(pages)}/{len(pages)}" in pages[-1].replace(" ", "")
    assert all(words in printed for words in ("Signed off by", "First person", "SHA-256"))
