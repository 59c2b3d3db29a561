"""gridveil attack on detailed bundles: what is won back is the released value, which lies as far
from the truth as honest noise has it.
"""

import json
from fractions import Fraction

import numpy as np
import pytest

from cli_helpers import found_in, gridveil
from detailed_releases import FILE, detailed, write_private
from gridveil.adversary.attack.detailed import (
    inertia_by_rates,
    inertia_by_rows,
    read_off,
    unshrunk,
)
from gridveil.assurance.owner_report import detailed as report
from gridveil.assurance.owner_report.detailed import (
    assess_detailed,
    drawn_of,
    expected_error,
    whole_advantage,
    within_alpha,
)
from gridveil.assurance.owner_report.signoff import CONFIDENTIAL
from gridveil.assurance.owner_report.signoff_detailed import detailed_notes
from gridveil.dynamics.detailed.estimate import toward_mean
from gridveil.foundation.errors import InputError, PrivateValueError
from gridveil.grid.parameters import Bounds
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.mechanisms import USUAL, Box, GroupLoss
from gridveil.readers.cases import open_grid
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import Private
from gridveil.workflow.detailed import allocate, publish_detailed

ONE = Fraction(1)


def released(source, seed=1, **settings):
    given = {"epsilon": ONE, "ledger": None, "sampler": DemoSampler(seed)} | settings
    given["error_bars"] = False
    return publish_detailed(source, **given)


def noisy_values(source, seed=1):
    adjacency = Adjacency("one-asset-relative", family="detailed")
    return perturb(
        source,
        epsilon=ONE,
        adjacency=adjacency,
        bounds=Bounds(family="detailed"),
        ledger=None,
        sampler=DemoSampler(seed),
        allocation=allocate(source.facts, adjacency),
    ).values


def loss(law="items", scale=0.1, *, relative=True, together=1):
    return GroupLoss("1", Fraction(1, 20), ONE, 1.0, scale, law, relative, together)


# --- what the bundle gives back -------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0.5, 1.0, 2.0])
def test_values_behind_shrunk_ones_come_back(spread):
    values = np.exp(spread * np.random.default_rng(1).standard_normal(12))
    shrunk = toward_mean(values, 0.2)
    assert np.abs(shrunk / values - 1).max() > 1e-3
    np.testing.assert_allclose(unshrunk(shrunk, 0.2), values, rtol=1e-9)


def test_which_of_equal_values_lay_where_is_lost():
    same = toward_mean(np.array([1.0, 1.1, 1.2]), 1.0)
    np.testing.assert_array_equal(unshrunk(same, 1.0), same)


def test_the_network_form_shows_what_was_drawn_and_the_noisy_inertia_behind_it():
    source = detailed("andes:ieee39")
    made, noisy = released(source, form="network"), noisy_values(source)
    assert made.shown.moved == 0
    seen = read_off(made.shown)
    for name in ("x", "p_load", "b_shunt"):
        np.testing.assert_allclose(seen[name], noisy[name], rtol=1e-12)
    own = made.guarantee.groups["M"]
    behind = unshrunk(made.model.inertia, own.noise.deviation * own.scale)
    np.testing.assert_allclose(behind, noisy["M"], rtol=1e-9)


@pytest.mark.parametrize("form", ["reduced", "network"])
def test_rows_of_a_tell_the_released_inertia_and_nothing_else(form):
    source = detailed("andes:ieee39")
    made = released(source, form=form)
    found = inertia_by_rows(made.model, made.shown.case)
    np.testing.assert_allclose(found, made.model.inertia, rtol=1e-7)
    truth = Private.open(source.values["M"])
    assert np.abs(found / truth - 1).max() > 0.05


def test_first_rates_tell_inertia_where_loads_do_not_answer():
    made = released(open_grid("andes:ieee39", model="detailed", options={"zip": "P"}))
    assert np.abs(inertia_by_rates(made.model) / made.model.inertia - 1).max() < 0.1


# --- figures against their oracles ----------------------------------------------------------------


@pytest.mark.parametrize(
    "own",
    [
        loss(scale=0.3),
        loss("box", 0.2, together=2),
        loss("box-means", 0.02, together=7),
        loss(scale=0.03, relative=False),
    ],
    ids=["Laplace", "a pair", "seven means", "absolute"],
)
def test_honest_noise_has_the_error_and_the_share_within_alpha_that_are_said(own):
    d = own.together
    z = own.noise.seeded(np.random.default_rng(1), own.scale, (200_000 // d, d))[:, 0]
    apart = np.expm1(z) if own.relative else z
    assert np.median(np.abs(apart)) == pytest.approx(expected_error(own), rel=0.03)
    alpha = np.log1p(0.05) if own.relative else 0.05
    assert (np.abs(z) <= alpha).mean() == pytest.approx(within_alpha(own), abs=0.015)


def test_laplace_items_lie_within_alpha_as_often_as_their_epsilon_says():
    share = within_alpha(loss(scale=float(np.log1p(0.05)) / 0.7))
    assert share == pytest.approx(1 - np.exp(-0.7), rel=1e-12)


def test_the_advantage_of_several_draws_agrees_with_formulas():
    together = whole_advantage([(USUAL, (0.5,)), (USUAL, (0.5,))])
    assert together == pytest.approx(USUAL.advantage([0.5, 0.5]), abs=0.002)
    one = whole_advantage([(Box(2), (1.0, 1.0))])
    assert one == pytest.approx(1 - np.exp(-0.5), rel=1e-12)
    split = whole_advantage([(Box(2), (0.4, 0.4)), (Box(7), (0.6,) * 7)])
    assert max(1 - np.exp(-0.2), 1 - np.exp(-0.3)) < split < np.tanh(0.5)


def test_a_mean_is_compared_with_the_mean_that_noise_was_put_on():
    truth = np.array([1.0, 4.0])
    assert drawn_of(loss("mean"), truth) == pytest.approx([2.0])
    assert drawn_of(loss("mean", relative=False), truth) == pytest.approx([2.5])
    np.testing.assert_array_equal(drawn_of(loss("items"), truth), truth)


# --- the owner's report ---------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["one-asset-relative", "asset-l1-relative", "one-item-relative"])
def test_demo_draws_agree_with_honest_noise_for_every_drawn_parameter(rule):
    source = detailed()
    made = released(source, adjacency=Adjacency(rule, family="detailed"))
    private = assess_detailed(source, made)
    with pytest.raises(PrivateValueError):
        repr(private)
    found = Private.open(private)
    assert {row.name for row in found.parameters} == set(made.guarantee.groups)
    for row in found.parameters:
        assert row.low <= row.theory <= row.high, row.name
        assert row.noisy == pytest.approx(row.expected, rel=0.6), row.name
        assert 0 < row.advantage <= np.tanh(0.5)
    first, last = found.averaging[0], found.averaging[-1]
    assert last.averaged["x"] < first.averaged["x"] / 4
    assert last.single["x"] < last.averaged["x"]  # one release of that ε tells more
    if rule == "asset-l1-relative":
        assert all(row.advantage < 0.4 for row in found.assets)


def test_a_table_that_is_too_large_is_not_averaged_and_says_so(monkeypatch):
    monkeypatch.setattr(report, "MOST_ENTRIES", 10)
    source = detailed()
    private = assess_detailed(source, made := released(source))
    assert Private.open(private).averaging == ()
    assert any("nobody tried" in note for note in detailed_notes(private, made)[:-1])


def test_a_bundle_of_another_grid_is_refused():
    with pytest.raises(InputError, match="other units"):
        assess_detailed(detailed("andes:ieee39"), released(detailed()))


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    path = write_private(tmp_path, seed=3)
    released(detailed(path)).save(tmp_path / "bundle")
    return tmp_path / "bundle"


def attack(bundle, *options):
    source = bundle.with_name(FILE)
    return gridveil("attack", bundle, "--source", source, *options)


def test_the_report_is_confidential_and_has_no_single_value(bundle):
    done = attack(bundle, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["confidential"] == CONFIDENTIAL and found["demo"]
    assert all(row["advantage"] <= row["bound"] for row in found["all_but_one"])
    source = detailed(bundle.with_name(FILE))
    for values in source.values.values():
        assert found_in(done.out.encode(), Private.open(values)) == []


def test_the_screen_has_every_table(bundle):
    done = attack(bundle)
    assert done.code == 0, done.err
    for words in ("what was drawn", "how near", "gives back", "all but one", "averaged"):
        assert words in done.out
    assert "CONFIDENTIAL" in done.err and "DEMO" in done.err


def test_records_beside_a_detailed_bundle_are_refused(bundle):
    done = attack(bundle, "--trajectory=nowhere.toml")
    assert done.code == 2 and "Nothing was attacked" in done.err
