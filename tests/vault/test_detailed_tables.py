"""A detailed table goes the way of every table: facts, draw, ledger, certificate."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gridveil.foundation.errors import InputError, LedgerError, OptionError
from gridveil.grid.case import Branches, DetailedCase, DeviceTable, Loads, Units
from gridveil.grid.detailed import SOLVED_ON_THE_RELEASE, DetailedFacts
from gridveil.grid.facts import GridFacts
from gridveil.grid.parameters import Bounds, Parameter, Range, family_of, parameters_of, registered
from gridveil.privacy.adjacency import Adjacency, usual_alpha
from gridveil.privacy.allocation import ITEMS, Allocation, asked
from gridveil.privacy.guarantee import DETAILED_NOT_PROTECTED
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.ledger.fingerprints import line_marks
from gridveil.privacy.mechanisms import GroupLoss, named
from gridveil.publication.certificate import certify, in_plain_words
from gridveil.publication.document import bounds_document
from gridveil.publication.release import Release, declared_inputs
from gridveil.publication.schema import GroupDocument, group_losses, groups_document, means_of
from gridveil.publication.stated import guarantee_problems, release_problems
from gridveil.vault.perturb import PlannedDraw, perturb, version_of
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import SourceGrid
from helpers import star
from privacy_helpers import all_that_it_says, private_grid

HALF, ONE = Fraction(1, 2), Fraction(1)
TRUE = {
    "x": (0.271828, 0.314159),
    "p_load": (1.618033, 1.414213),
    "q_ratio": (0.331662, -0.264575),
    "p_gen": (1.732050, 2.236067),
    "M": (13.063778, 11.459155),
}
DRAWS = {"x": "items", "p_load": "items", "q_ratio": "box-means", "p_gen": "items", "M": "items"}
JOINT = DRAWS | {"p_gen": "box", "M": "box"}
BOUNDS = Bounds(family="detailed")


def case(**changed):
    """Bus 1 with two machines, two circuits to bus 2, and a load at each."""
    given = {
        "name": "toy",
        "buses": ("1", "2"),
        "base_mva": 100.0,
        "frequency_hz": 60.0,
        "branches": branches([[0, 1], [1, 0]]),
        "shunt": np.zeros(2, dtype=complex),
        "loads": loads([0, 1]),
        "units": Units(np.array([0, 0]), np.array([1.0, -1.0]), np.ones(2), 0),
        "devices": (DeviceTable("GENROU", np.arange(2)), DeviceTable("TGOV1", np.array([1]))),
    }
    return DetailedCase(**(given | changed))


def branches(ends):
    count = len(ends)
    return Branches(
        np.array(ends), np.full(count, 0.1j), np.zeros(count), np.ones(count, dtype=complex)
    )


def loads(buses):
    shares = np.zeros((len(buses), 2))
    return Loads(np.array(buses), np.ones(len(buses), dtype=complex), shares, shares)


def toy(entries=None, **changed):
    """Facts of the case, each of whose assets has every entry of TRUE."""
    given = dict.fromkeys(TRUE, np.arange(2)) if entries is None else entries
    return DetailedFacts(case(**changed), given, zip_model="constant impedance")


def source(**changed):
    return SourceGrid.of(toy(), **(TRUE | changed))


def adjacency(rule="one-asset-relative", **given):
    return Adjacency(rule, family="detailed", **given)


def drawn(rule="one-asset-relative", draws=DRAWS, **changed):
    source_of_noise = {"ledger": None, "sampler": DemoSampler(3)} | changed
    return perturb(
        source(),
        epsilon=ONE,
        adjacency=adjacency(rule),
        bounds=BOUNDS,
        allocation=Allocation(draws),
        **source_of_noise,
    )


def released(noisy):
    """The release of a noisy table, but for its model."""
    return Release(
        model=cast(Any, None),
        guarantee=noisy.guarantee,
        bounds=noisy.bounds,
        clipped=noisy.clipped(),
        fitted=None,
        public_inputs=declared_inputs(
            bounds=BOUNDS.origin, allocation=noisy.allocation, load_model=noisy.facts.zip_model
        ),
        provenance=(),
        receipt=noisy.receipt,
    )


def test_facts_say_which_asset_has_which_entry():
    entries = {"M": np.array([1]), "x": np.arange(2), "b_shunt": np.array([], dtype=int)}
    facts = toy(entries)
    assert list(facts.parameters) == ["x", "M"]  # as the registry has them; none without an entry
    assert facts.sizes == {"x": 2, "M": 1}
    assert facts.items("x") == ["1-2", "2-1"]
    assert facts.items("M") == ["1#2"] and facts.positions("M").tolist() == [1]
    assert (facts.family, facts.summed) == ("detailed", ())
    parallel = toy(branches=branches([[0, 1], [0, 1]]), loads=loads([1, 1]))
    assert parallel.items("x") == ["1-2", "1-2#2"] and parallel.items("p_load") == ["2", "2#2"]
    shunts = toy({"b_shunt": np.array([0])}, shunt=np.array([0.1, 0.2j]))
    assert shunts.items("b_shunt") == ["2"]  # one without b has none


NO_UNITS = Units(np.array([], dtype=int), np.empty(0), np.empty(0), 0)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"buses": ("1", "1")}, "occurs twice"),
        ({"units": NO_UNITS, "devices": ()}, "no machine is in service"),
        ({"buses": ("1", "2", "3")}, "not connected"),
        ({"branches": branches([[0, 0], [0, 1]])}, "joins a bus to itself"),
        ({"loads": loads([0, 2])}, "loads points to a bus"),
        ({"loads": loads([-1, 0])}, "loads points to a bus"),
        ({"units": replace(NO_UNITS, bus=np.array([0, 5]))}, "machines points to a bus"),
        ({"base_mva": math.nan}, "base_mva"),
        ({"frequency_hz": 0.0}, "frequency_hz"),
        ({"entries": {"k": np.arange(2)}}, "given of k"),
        ({"entries": {"x": np.array([0, 0])}}, "entries of x"),
        ({"entries": {"x": np.array([2])}}, "entries of x"),
        ({"entries": {"b_shunt": np.array([0])}}, "entries of b_shunt"),
        ({"devices": (DeviceTable("GENROU", np.array([2])),)}, "device GENROU"),
        ({"units": replace(case().units, slack=2)}, "the slack"),
    ],
)
def test_facts_that_do_not_fit_together_are_refused(changed, match):
    with pytest.raises(InputError, match=match):
        toy(**changed)


def test_a_source_has_the_entries_of_its_facts_and_no_others():
    with pytest.raises(InputError, match="a table names"):
        SourceGrid.of(toy(), **{name: TRUE[name] for name in ("x", "M")})
    with pytest.raises(InputError, match="inertia M of 1#2") as caught:
        source(M=(13.063778, -11.459155))
    assert "11.459" not in "".join(map(str, all_that_it_says(caught.value)))
    with pytest.raises(InputError, match="reactive ratio q_ratio of 1") as caught:
        source(q_ratio=(math.nan, 0.0))
    assert "above 0" not in str(caught.value)


def test_noise_is_on_logarithms_but_for_what_is_absolute():
    noisy = drawn()
    groups = noisy.guarantee.groups
    assert {name: loss.relative for name, loss in groups.items()} == dict.fromkeys(TRUE, True) | {
        "q_ratio": False
    }
    assert usual_alpha("one-item-relative", "detailed")["q_ratio"] == Fraction(1, 20)
    # one-asset: a line's ε whole; a load's and a machine's two losses add up, so half to each
    assert {name: loss.epsilon for name, loss in groups.items()} == {
        "x": ONE, "p_load": HALF, "q_ratio": HALF, "p_gen": HALF, "M": HALF
    }  # fmt: skip
    assert groups["x"].scale == pytest.approx(math.log(1.05), rel=1e-6)
    assert groups["M"].scale == pytest.approx(2 * math.log(1.05), rel=1e-6)
    # a mean of two entries moves by half of what one of them does
    assert groups["q_ratio"].scale == pytest.approx(0.05 / 2 / 0.5, rel=1e-6)
    assert {name: len(values) for name, values in noisy.values.items()} == {
        "x": 2, "p_load": 2, "q_ratio": 1, "p_gen": 2, "M": 2
    }  # fmt: skip
    assert noisy.guarantee.spent <= 1 and noisy.guarantee.means == {"q_ratio": 2}
    # the seed's own noise, in the order of the assets
    random = np.random.default_rng(3)
    expected = np.exp(np.log(TRUE["x"]) + random.laplace(0, groups["x"].scale, 2))
    np.testing.assert_allclose(noisy.values["x"], expected, rtol=1e-12)


def test_joint_draws_know_which_entries_are_of_one_asset():
    groups = drawn(draws=JOINT).guarantee.groups
    assert groups["M"].together == groups["p_gen"].together == 2
    # one loss for both, so that each has the whole ε
    assert groups["M"].epsilon == groups["p_gen"].epsilon == ONE
    with pytest.raises(OptionError, match="Joint noise"):
        drawn("asset-l1-relative", JOINT)


@pytest.mark.parametrize("rule", ["one-item-relative", "asset-l1-relative"])
def test_under_these_rules_each_entry_has_the_whole_epsilon(rule):
    noisy = drawn(rule)
    assert {loss.epsilon for loss in noisy.guarantee.groups.values()} == {ONE}
    assert noisy.guarantee.spent <= 1


def test_changes_of_an_asset_that_add_up_to_one_cost_no_more_than_one():
    """In exact fractions: Σ |Δ log θ_i| / b_i ≤ ε wherever Σ |Δ log θ_i| / log(1 + α_i) ≤ 1."""
    found = drawn("asset-l1-relative", DRAWS).guarantee
    random = np.random.default_rng(1)
    for _ in range(200):
        parts = random.dirichlet(np.ones(2))
        cost = sum(
            Fraction(part) * found.adjacency.distance(name) / Fraction(found.groups[name].scale)
            for name, part in zip(("M", "p_gen"), parts.tolist(), strict=True)
        )
        assert cost <= Fraction(sum(map(Fraction, parts.tolist())))


MEANS = {"x": "mean", "p_load": "mean", "q_ratio": "mean", "p_gen": "mean", "M": "mean"}


def test_means_have_independent_noise_where_one_entry_moves():
    noisy = drawn("asset-l1-relative", MEANS)
    random = np.random.default_rng(3)  # the seed's own noise, one value after the other
    for name, loss in noisy.guarantee.groups.items():
        expected = 0.05 / 2 if name == "q_ratio" else math.log(1.05) / 2
        assert loss.scale == pytest.approx(expected, rel=1e-6)
        noise = random.laplace(0, loss.scale)
        if name == "q_ratio":
            expected = np.mean(TRUE[name]) + noise
        else:
            expected = math.exp(np.log(TRUE[name]).mean() + noise)
        np.testing.assert_allclose(noisy.values[name], [expected], rtol=1e-12)


@given(
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6),
    st.floats(-1, 1),
    st.booleans(),
)
def test_a_mean_moves_by_no_more_than_its_noise_is_made_for(entries, part, relative):
    """In exact fractions: two neighbours' means, as doubles, against the distance."""
    mechanism, public, alpha = named("mean"), Range(1e-3, 1e3), Fraction(1, 20)
    of = Adjacency("one-item-relative" if relative else "one-item", dict.fromkeys("kmd", alpha))
    asked_of = asked(of, "m", public, len(entries), ONE, summed=False)
    first = entries[0]
    there = first * (1 + 0.05 * part) if relative else first + 0.05 * part
    here, beyond = Fraction(first), Fraction(there)
    near = max(here, beyond) <= min(here, beyond) * (1 + alpha)
    assume(there > 0 and (near if relative else abs(here - beyond) <= alpha))
    loss = GroupLoss("", alpha, ONE, 1.0, 1.0, "mean", relative)
    ends = [
        mechanism.prepare(np.array([one, *entries[1:]]), loss, public)[0] for one in (first, there)
    ]
    assert abs(Fraction(ends[0]) - Fraction(ends[1])) <= mechanism.distance(asked_of)


def test_rules_and_modes_of_swing_models_are_refused():
    for rule in ("one-per-group", "one-per-group-relative", "one-asset"):
        with pytest.raises(OptionError, match="not for tables of the detailed family"):
            adjacency(cast(Any, rule))
    with pytest.raises(OptionError, match="not for tables of the swing family"):
        Adjacency("asset-l1-relative")
    with pytest.raises(OptionError, match="Topology mode is for swing models"):
        Allocation(dict.fromkeys(TRUE, "nothing"), hides_network=True)
    with pytest.raises(OptionError, match="cannot be drawn"):
        Allocation(DRAWS | {"M": "sum"})


def test_an_allocation_names_each_parameter_of_the_table():
    less = Allocation({name: way for name, way in DRAWS.items() if name != "M"})
    for allocation in (less, ITEMS):
        with pytest.raises(OptionError, match="does not say what is drawn of each"):
            PlannedDraw(source(), ONE, adjacency(), BOUNDS, allocation)
    with pytest.raises(OptionError, match="The adjacency of a swing table"):
        PlannedDraw(source(), ONE, Adjacency(), BOUNDS, Allocation(DRAWS))
    with pytest.raises(OptionError, match="The bounds of a swing table"):
        PlannedDraw(source(), ONE, adjacency(), Bounds(), Allocation(DRAWS))
    with pytest.raises(OptionError, match="cannot be drawn"):
        Allocation(DRAWS | {"k": "items"})
    assert list(Allocation(dict(reversed(DRAWS.items()))).draws) == list(DRAWS)


def test_names_are_unique_over_families():
    assert family_of(["M", "x"]) == "detailed" and family_of(["k"]) == "swing"
    with (
        pytest.raises(OptionError, match="declared already"),
        registered(Parameter("x", "x", "s", "machine", Range(0, 1))),
    ):
        pass
    extra = Parameter("lead", "lead", "s", "machine", Range(1, 2), family="detailed")
    with registered(extra):
        assert "lead" in parameters_of("detailed") and "lead" not in parameters_of("swing")
    assert "lead" not in parameters_of("detailed")


def test_bounds_below_zero_are_for_what_has_a_sign():
    assert Bounds({"q_ratio": Range(-2, 2, signed=True)}, family="detailed")["q_ratio"].lower == -2
    with pytest.raises(OptionError, match="reversed, empty or negative"):
        Range(-2, 2)
    with pytest.raises(OptionError, match="lower bound of M must be above 0"):
        Bounds({"M": Range(-2, 2, signed=True)}, family="detailed")
    with pytest.raises(OptionError, match="lower bound of d is below 0"):
        Bounds({"d": Range(-2, 2, signed=True)})


def swing_reading(facts):
    """The same file as a swing model has it: parallel circuits merged, machines of a bus summed."""
    return GridFacts(
        name="toy", buses=facts.buses, edges=np.array([[0, 1]]), machines=np.array([0]),
        governor_rate=np.ones(1), droop_gain=np.ones(1), loads=np.ones(2),
        load_damping=np.zeros(2), omega_b=1.0, frequency_hz=60.0, base_mva=100.0,
        loads_are_public=True, operating_point="flat",
    )  # fmt: skip


def test_a_ledger_knows_a_grid_whatever_it_is_read_as():
    assert line_marks(toy()) == line_marks(swing_reading(toy()))


def draw_of(ledger, lineage=None, **given):
    return drawn(ledger=ledger, sampler=None, lineage=lineage, **given)


def swing_draw(ledger, lineage):
    swing = SourceGrid.of(swing_reading(toy()), k=[3.0], m=[5.0], d=[2.0])
    settings = {"epsilon": ONE, "adjacency": Adjacency(), "bounds": Bounds()}
    return perturb(swing, **settings, ledger=ledger, lineage=lineage)


def test_a_charged_draw_is_counted_by_its_own_parameters(folder, home):
    ledger = Ledger(folder / "ledger.sqlite")
    ledger.set_budget("toy", adjacency(), 2 * ONE, version_of(source(), ledger))
    first, second = draw_of(ledger), draw_of(ledger, draws=JOINT)
    account = ledger.account("toy")
    assert account is not None and account.adjacency == adjacency()
    assert not {"k", "m", "d"} & account.totals.keys()
    assert account.totals["x"] == sum(
        Fraction(noisy.guarantee.groups["x"].spent) for noisy in (first, second)
    )
    assert account.spent == second.receipt.spent
    assert account.spent <= first.guarantee.spent + second.guarantee.spent <= 2
    assert ledger.accounts()["toy"] == account and ledger.verify() == []
    with pytest.raises(LedgerError, match="fixed to adjacency"):
        draw_of(ledger, rule="one-item-relative")


def test_an_account_has_one_family_for_ever(folder, home):
    ledger = Ledger(folder / "ledger.sqlite")
    swing_draw(ledger, "north")
    before = ledger.accounts()
    for lineage in ("north", "another name"):  # by its name, and by its network
        with pytest.raises(LedgerError, match="counts parameters of the swing family") as caught:
            draw_of(ledger, lineage)
        assert "does not simply add up" in str(caught.value)
    with pytest.raises(LedgerError, match="swing family"):
        ledger.set_budget("north", adjacency(), 9 * ONE)
    assert ledger.accounts() == before

    other = Ledger(folder / "other.sqlite")
    draw_of(other, "north")
    for lineage in ("north", "another name"):
        with pytest.raises(LedgerError, match="counts parameters of the detailed family"):
            swing_draw(other, lineage)
    assert len(other.entries()) == 1


def test_strangers_of_two_families_share_a_ledger(folder, home):
    ledger = Ledger(folder / "ledger.sqlite")
    settings = {"epsilon": ONE, "adjacency": Adjacency(), "bounds": Bounds()}
    perturb(private_grid(), **settings, ledger=ledger, lineage="chain")
    draw_of(ledger, "toy")
    assert set(ledger.accounts()) == {"chain", "toy"} and ledger.verify() == []


@pytest.mark.parametrize("draws", [DRAWS, JOINT, DRAWS | {"x": "nothing"}])
def test_documents_say_what_was_drawn_and_back(draws):
    guarantee = drawn(draws=draws).guarantee
    groups = groups_document(guarantee)
    assert list(groups) == list(TRUE)
    assert group_losses(groups) == dict(guarantee.groups)
    assert means_of(groups) == {"q_ratio": 2}
    assert (groups["x"] is None) == (draws["x"] == "nothing")
    written = {name: loss.model_dump(exclude_unset=True) for name, loss in groups.items() if loss}
    assert [name for name, loss in written.items() if "entries" in loss] == ["q_ratio"]
    assert list(bounds_document(BOUNDS, guarantee)) == list(TRUE)


def test_a_certificate_states_formulas_and_what_is_not_protected(folder, home):
    noisy = draw_of(Ledger(folder / "ledger.sqlite"), draws=DRAWS | {"x": "nothing"})
    certificate = certify(released(noisy), None)
    text = in_plain_words(certificate)
    for words in (
        "one load's active power p_load and reactive ratio q_ratio together",
        "(q_ratio by at most its α itself)",
        "M: 2H on the system's base",
        "filed values that each move by α may move an entry further",
        "q_ratio (their mean alone): α = 1/20 p.u. / p.u.",
        "x: nothing of the reactance was drawn",
        f"operating point: {SOLVED_ON_THE_RELEASE}",
        "how loads depend on voltage: constant impedance",
        *DETAILED_NOT_PROTECTED,
    ):
        assert words in text
    for words in ("inside k", "governor", "T, G, omega_b"):
        assert words not in text
    assert "by at most e^(ε t/α)" in noisy.guarantee.in_words()


def test_the_weaker_rule_says_what_a_whole_asset_costs():
    words = drawn("asset-l1-relative").guarantee.in_words()
    assert "changes that add up to at most 1" in words
    assert "costs up to ε = 2, not 1" in words  # M and p_gen, each with the whole ε
    assert "costs up to" not in drawn("one-item-relative").guarantee.in_words()


@pytest.mark.parametrize("rule", ["one-asset-relative", "one-item-relative", "asset-l1-relative"])
def test_what_a_release_states_is_recomputed(rule):
    release = released(drawn(rule))
    assert list(guarantee_problems(release)) == []
    assert list(guarantee_problems(replace(release, clipped={}))) == [
        "clipped does not count what was drawn"
    ]
    assert list(release_problems(release)) == ["it shows no case beside its model"]


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("M", {"scale": 0.5}),
        ("M", {"relative": False}),
        ("q_ratio", {"relative": True}),
        ("p_load", {"unit": "p.u."}),
        ("x", {"drawn": "sum"}),
        ("x", {"epsilon": Fraction(2)}),
    ],
)
def test_a_changed_figure_is_found(name, changed):
    release = released(drawn())
    groups = dict(release.guarantee.groups)
    if "scale" in changed:
        changed = {"scale": groups[name].scale * changed["scale"]}
    groups[name] = replace(groups[name], **changed)
    forged = replace(release, guarantee=replace(release.guarantee, groups=groups))
    assert list(guarantee_problems(forged))


def test_a_mean_over_fewer_entries_than_stated_is_found():
    release = released(drawn())
    for means in ({}, {"q_ratio": 1}, {"q_ratio": 3}, {"q_ratio": 2, "M": 2}):
        forged = replace(release, guarantee=replace(release.guarantee, means=means))
        assert list(guarantee_problems(forged))


def test_groups_of_two_families_are_no_document():
    from pydantic import TypeAdapter, ValidationError

    from gridveil.publication.schema import Groups

    adapter = TypeAdapter(Groups)
    given = groups_document(drawn().guarantee)
    assert adapter.validate_python(given) == given
    one: GroupDocument | None = given["M"]
    for wrong in ({**given, "k": one}, dict(reversed(given.items())), {}, {"k": one, "m": one}):
        with pytest.raises(ValidationError):
            adapter.validate_python(wrong)


def test_a_swing_model_does_not_go_with_a_detailed_promise():
    model = star().reduced
    assert list(release_problems(replace(released(drawn()), model=model))) == [
        "its model is none of those that its guarantee speaks of"
    ]
