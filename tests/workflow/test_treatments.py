"""Treatments that an owner chooses: what is drawn, what goes out as it is, and what is refused."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from cli_helpers import as_json, charges, gridveil
from detailed_releases import HALF, charged, demo, detailed
from gridveil import load, verify
from gridveil.dynamics.detailed.entries import ENTRIES, entries_of
from gridveil.foundation.errors import LedgerError, OptionError
from gridveil.grid.parameters import Bounds
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import Allocation
from gridveil.privacy.ledger import Ledger
from gridveil.publication.stated import release_problems
from gridveil.vault.perturb import PlannedDraw, perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import Private
from gridveil.workflow.detailed import allocate
from gridveil.workflow.settings import ReleaseSettings

RULE = Adjacency("one-asset-relative", family="detailed")
GIVEN = {"grid": "andes:kundur", "epsilon": "1/2"}


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A folder to work in, with a home of its own."""
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GRIDVEIL_WITNESS", str(tmp_path / "home/witness.sqlite"))
    monkeypatch.delenv("GRIDVEIL_LEDGER", raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def release(*options, grid="andes:kundur", out="bundle"):
    return gridveil(
        "release", grid, "--epsilon=1/2", "--ledger=ledger.sqlite", "--out", out, *options
    )


# --- one spelling ---------------------------------------------------------------------------------


def test_options_a_file_and_python_spell_treatments_alike(tmp_path):
    wanted = {"M": "mean", "x": "typical"}
    config = tmp_path / "release.toml"
    config.write_text('grid = "andes:kundur"\nepsilon = "1/2"\n[treatments]\nM = "mean"\n')
    by_text = ReleaseSettings.of(GIVEN, treatments="M=mean,x=typical")
    by_mapping = ReleaseSettings.of(GIVEN, treatments=wanted)
    by_file = ReleaseSettings.from_file(config, {"treatments": "x=typical"})
    assert by_text.treatments == by_mapping.treatments == by_file.treatments == wanted
    assert by_text.said_family == "detailed"
    over = ReleaseSettings.from_file(config, {"treatments": "M=publish"})
    assert over.treatments == {"M": "publish"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"treatments": "gov_gian=mean"}, "Did you mean gov_gain"),
        ({"treatments": "M=hide"}, "protect, mean, typical, publish"),
        ({"treatments": "M"}, "--treatments cannot be read"),
        ({"treatments": "M=mean", "model": "swing"}, "swing models have not"),
        ({"split": "machine=1/2", "model": "swing"}, "swing models have not"),
        ({"split": "machine=1/2,k=1"}, "other groups beside them"),
    ],
)
def test_a_mistake_is_named_before_a_file_is_read(given, said):
    with pytest.raises(OptionError, match=r"Nothing was drawn|cannot be read") as caught:
        ReleaseSettings.of(GIVEN, **given)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        ("--treatments=pss_gain=mean",),  # no unit has a stabiliser
        ("--split=machine=1",),
        ("--split=machine=1/2", "--adjacency=asset-l1-relative"),
        ("--treatments=M=mean", "--mechanism=items"),
        ("--treatments=" + ",".join(f"{name}=typical" for name in ENTRIES if "pss" not in name
                               and "shunt" not in name),),
    ],
    ids=lambda options: " ".join(options)[:40],
)  # fmt: skip
def test_what_a_grid_cannot_have_is_refused_before_the_charge(room, options):
    done = release(*options)
    assert done.code == 2, done.out
    assert "Nothing was drawn and nothing was spent" in " ".join(done.err.split())
    assert charges(room / "ledger.sqlite") == []


# --- what is drawn --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("treatments", "shares"),
    [
        ({}, {"M": "2/5", "gov_gain": "3/5", "x": "9/10", "p_load": 1, "q_ratio": 1}),
        ({"q_ratio": "mean"}, {"p_load": "3/4", "q_ratio": "1/4"}),
        ({"M": "mean", "p_gen": "mean"}, {"M": 1, "gov_gain": 1}),
        ({"gov_gain": "protect"}, {"M": "2/5", "gov_gain": "2/5", "gov_lag": "3/5"}),
        ({"b_ratio": "typical"}, {"x": 1}),
        ({"M": "publish"}, {"p_gen": "2/5", "gov_gain": "3/5"}),
    ],
    ids=str,
)
def test_shares_follow_the_treatments_of_an_asset(treatments, shares):
    facts = detailed("andes:kundur").facts
    found = allocate(facts, RULE, treatments)
    for name, share in shares.items():
        assert found.shares[name] == Fraction(share), name
    assert found.shares.keys() == set(found.drawn)
    split = found.over(replace(RULE, published=found.published))
    assert split.loss(found.shares, found.assets) == 1


def test_a_split_is_what_items_have_of_an_asset():
    facts = detailed("andes:kundur").facts
    found = allocate(facts, RULE, {}, {"machine": Fraction(1, 4)})
    assert (found.shares["M"], found.shares["gov_gain"]) == (Fraction(1, 4), Fraction(3, 4))
    assert found.shares["x"] == Fraction(9, 10)
    assert found.origin == "treatments set by its owner"
    assert allocate(facts, RULE, {"M": "protect"}).origin == "gridveil's usual treatments"


@pytest.mark.parametrize("form", ["reduced", "network"])
@pytest.mark.parametrize(
    "treatments",
    [
        {"x": "publish", "M": "publish", "p_load": "typical"},
        pytest.param(
            {"gov_gain": "protect", "x": "mean", "q_ratio": "publish"}, marks=pytest.mark.slow
        ),
    ],
    ids=str,
)
def test_chosen_treatments_make_bundles_that_verify(tmp_path, treatments, form):
    made = demo(treatments=treatments, form=form)
    made.save(tmp_path / "bundle")
    verify(tmp_path / "bundle")
    again = load(tmp_path / "bundle").guarantee
    assert again.published == tuple(n for n in ENTRIES if treatments.get(n) == "publish")
    assert again.neighbours == made.guarantee.neighbours


def test_published_values_are_the_true_ones_and_nothing_else_is():
    source = detailed("andes:kundur")
    made = demo(treatments={"x": "publish", "M": "publish"}, form="network")
    assert not made.shown.moved
    entries = entries_of(made.shown.case)
    for name, values in source.values.items():
        same = np.isclose(entries[name][0], Private.open(values), rtol=1e-12)
        assert same.all() if name in ("x", "M") else not same.any(), name


def test_a_value_on_its_bound_is_no_clipped_one_where_it_is_published():
    source = detailed("andes:kundur")
    values = Private.open(source.values["M"])
    bounds = Bounds({"M": replace(RULE_BOUNDS["M"], lower=values.min())}, family="detailed")
    noisy = perturb(
        source,
        epsilon=HALF,
        adjacency=replace(RULE, published=("M",)),
        bounds=bounds,
        ledger=None,
        sampler=DemoSampler(1),
        allocation=allocate(source.facts, RULE, {"M": "publish"}),
    )
    assert noisy.clipped()["M"] == 0
    assert noisy.values["M"].tolist() == values.tolist()


RULE_BOUNDS = Bounds(family="detailed")


def test_an_adjacency_and_an_allocation_publish_the_same():
    source = detailed("andes:kundur")
    allocation = allocate(source.facts, RULE, {"M": "publish"})
    with pytest.raises(OptionError, match="not what neighbours share"):
        PlannedDraw(source, HALF, RULE, RULE_BOUNDS, allocation)
    usual = allocate(source.facts, RULE)
    with pytest.raises(OptionError, match="not what neighbours share"):
        PlannedDraw(source, HALF, replace(RULE, published=("M",)), RULE_BOUNDS, usual)
    with pytest.raises(OptionError, match="only entries of detailed tables"):
        Adjacency("one-asset", published=("k",))
    with pytest.raises(OptionError, match="cannot be drawn"):
        Allocation({"k": "published", "m": "items", "d": "items"})


# --- what is said ---------------------------------------------------------------------------------


def test_a_certificate_says_what_is_published_in_plain_words(room):
    done = release("--treatments=x=publish,M=mean", "--split=load=1/2")
    assert done.code == 0, done.err
    assert verify("bundle").noise["x"] == "none, published as it is"
    certificate = json.loads((room / "bundle/certificate.json").read_text())
    assert certificate["published"] == ["x"]
    assert "one line's charging ratio b_ratio, or" in certificate["neighbours"]
    assert "They do not differ in x, published as they are" in certificate["neighbours"]
    promise = json.loads((room / "bundle/release.json").read_text())["guarantee"]["in_words"]
    assert "any two values of one item that is not published and have logarithms" in promise
    assert any(said.startswith("reactance x: its true values") for said in
               certificate["not_protected"])  # fmt: skip
    words = (room / "bundle/certificate.txt").read_text()
    assert "x: reactance, PUBLISHED as it is, without noise" in words
    assert "nothing of the reactance was drawn" not in words
    (entry,) = charges(room / "ledger.sqlite")
    assert "x" not in entry.spent
    shown = as_json(gridveil("ledger", "show", "--ledger=ledger.sqlite", "--json"))
    assert shown["accounts"][0]["published"] == ["x"]


def test_inspect_names_the_usual_treatments():
    shown = as_json(gridveil("inspect", "andes:kundur", "--json"))["treatments"]
    assert {name: said.partition(",")[0] for name, said in shown.items()} == {
        name: ENTRIES[name].treatment for name in shown
    }


@pytest.mark.parametrize("form", ["reduced", "network"])
def test_a_bundle_that_hides_what_it_publishes_does_not_verify(form):
    made = demo(treatments={"M": "publish"}, form=form)
    silent = replace(made, guarantee=replace(made.guarantee, published=()))
    assert "nothing was drawn of M" in "".join(release_problems(silent))
    both = replace(made, guarantee=replace(made.guarantee, published=("M", "gov_gain")))
    assert "publishes what its table has not" in "".join(release_problems(both))


# --- one set of published parameters for a lineage ------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"M": "publish"}),
        pytest.param({"M": "typical"}, {"M": "publish"}, marks=pytest.mark.slow),
        pytest.param({"M": "publish"}, {}, marks=pytest.mark.slow),
        ({"M": "publish"}, {"M": "typical"}),
        pytest.param({"M": "publish"}, {"M": "publish", "x": "publish"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_lineage_publishes_the_same_for_ever(room, first, second):
    charged(room, treatments=first)
    rows = charges(room / "ledger.sqlite")
    with pytest.raises(LedgerError, match="was fixed by its first release"):
        charged(room, treatments=second)
    assert charges(room / "ledger.sqlite") == rows
    assert Ledger(room / "ledger.sqlite").verify() == []


def test_a_command_goes_on_publishing_what_its_lineage_publishes(room):
    assert release("--treatments=M=publish").code == 0
    raised = gridveil("ledger", "budget", "andes:kundur", "--epsilon=2", "--ledger=ledger.sqlite")
    assert raised.code == 0, raised.err
    done = release(out="second")
    assert done.code == 0, done.err
    assert load("second").guarantee.published == ("M",)
    refused = release("--treatments=M=protect", out="third")
    assert refused.code == 2
    assert "was fixed by its first release" in " ".join(refused.err.split())
    assert not (room / "third").exists()
