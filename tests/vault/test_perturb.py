"""Step 1 spends at most ε, charges before it draws, and adds Laplace noise of scale α/ε."""

import dataclasses
import math
import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from gridveil.foundation.errors import LedgerError, OptionError
from gridveil.grid.parameters import Bounds, Range
from gridveil.privacy.adjacency import RULES, Adjacency
from gridveil.privacy.epsilon import float_at_least
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms import USUAL, laplace
from gridveil.privacy.mechanisms.laplace import calibrate
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler, SecureSampler
from gridveil.vault.source import SourceGrid
from privacy_helpers import TRUE, all_that_it_says, chain, private_grid, traces

HALF = Fraction(1, 2)
ALPHA = {"k": Fraction(2), "m": Fraction(1, 2), "d": Fraction(3)}
SPLITS = [Adjacency(rule, ALPHA) for rule in RULES] + [
    Adjacency("one-asset", ALPHA, {"k": Fraction(1), "m": Fraction(2, 3), "d": Fraction(1, 3)}),
    Adjacency("one-item", ALPHA, {"k": Fraction(1, 7), "m": Fraction(1), "d": Fraction(1, 3)}),
    Adjacency(
        "one-per-group", ALPHA, {"k": Fraction(1, 7), "m": Fraction(3, 7), "d": Fraction(3, 7)}
    ),
]


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.sqlite")


def release(source=None, *, epsilon=HALF, adjacency=None, bounds=None, ledger=None, sampler=None):
    return perturb(
        source or private_grid(),
        epsilon=epsilon,
        adjacency=adjacency or Adjacency(),
        bounds=bounds or Bounds(),
        ledger=ledger,
        sampler=sampler,
    )


def demo(**settings):
    return release(sampler=DemoSampler(1), **settings)


# --- the loss -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "adjacency", SPLITS, ids=lambda a: f"{a.rule}{'' if a.shares is None else ', custom'}"
)
@pytest.mark.parametrize(
    "epsilon", [Fraction(1, 10), Fraction(1, 5), Fraction(1, 3), Fraction(1, 6)], ids=str
)
def test_the_loss_never_exceeds_epsilon_in_the_last_bit(epsilon, adjacency):
    guarantee = demo(epsilon=epsilon, adjacency=adjacency).guarantee
    spent = {name: Fraction(loss.spent) for name, loss in guarantee.groups.items()}
    parts = {
        "one-asset": max(spent["k"], spent["m"] + spent["d"]),
        "one-item": max(spent.values()),
        "one-per-group": sum(spent.values()),
    }
    assert guarantee.spent == parts[adjacency.counts] <= guarantee.epsilon == epsilon
    assert guarantee.spent > epsilon * (1 - Fraction(1, 10**15))


def test_a_float_epsilon_is_spent_as_it_prints():
    guarantee = demo(epsilon=0.1).guarantee
    assert guarantee.spent <= guarantee.epsilon == Fraction(1, 10)


@settings(max_examples=50, deadline=None)
@given(
    alpha=st.fractions(min_value=Fraction(1, 10**6), max_value=10**6),
    epsilon=st.fractions(min_value=Fraction(1, 10**6), max_value=10**3),
    size=st.integers(min_value=1, max_value=10**6),
)
def test_a_scale_is_the_least_that_keeps_to_epsilon(alpha, epsilon, size):
    found = calibrate(alpha, epsilon, size)
    assert alpha / Fraction(found.scale) <= Fraction(found.spent) <= epsilon
    assert Fraction(found.scale) <= alpha / epsilon * (1 + Fraction(1, 2**50))


@pytest.mark.parametrize(
    "adjacency", SPLITS, ids=lambda a: f"{a.rule}{'' if a.shares is None else ', custom'}"
)
def test_each_group_is_charged_what_opendp_maps(adjacency):
    for name, loss in demo(adjacency=adjacency).guarantee.groups.items():
        space = (
            dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(TRUE[name])),
            dp.l1_distance(T=float),
        )
        assert loss.spent == dp.m.make_laplace(*space, scale=loss.scale).map(
            float_at_least(adjacency.distance(name))
        )
        assert loss.alpha == ALPHA[name]


@pytest.mark.parametrize(
    "epsilon", [Fraction(0), Fraction(-1), Fraction(1, 10**30)], ids=["zero", "negative", "tiny"]
)
def test_an_impossible_epsilon_draws_and_charges_nothing(epsilon, ledger):
    with pytest.raises(OptionError, match="nothing was spent"):
        release(epsilon=epsilon, ledger=ledger)
    assert ledger.entries() == []


# --- the noise ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """Noise of one real release, 20 000 draws a group, too far from the bounds to be clipped."""
    n, wide = 20_000, Range(1.0, 2000.0)
    source = SourceGrid.of(
        chain(n + 1, n), k=np.full(n, 1000.0), m=np.full(n, 1000.0), d=np.full(n, 1000.0)
    )
    ledger = Ledger(tmp_path_factory.mktemp("noise") / "ledger.sqlite")
    noisy = release(
        source,
        epsilon=Fraction(1, 3),
        adjacency=Adjacency(alpha=ALPHA),
        bounds=Bounds(dict.fromkeys(("k", "k_r", "m", "d"), wide)),
        ledger=ledger,
    )
    return {name: noisy.values[name] - 1000.0 for name in TRUE}


def is_laplace(noise, scale, false_alarm=1e-7):
    """Compare with Lap(scale) by the Kolmogorov–Smirnov distance; its bound (Massart 1990) is exact
    for every sample size.
    """
    return kstest(noise, "laplace", args=(0, scale)).statistic <= math.sqrt(
        math.log(2 / false_alarm) / (2 * len(noise))
    )


# The distance of Lap(b) to Lap(1.3 b) is 0.048, to Lap(0.7 b) 0.065: the bound, 0.0205, is eight
# deviations of it away.
@pytest.mark.slow
@pytest.mark.parametrize(("group", "scale"), [("k", 6.0), ("m", 3.0), ("d", 18.0)])
@pytest.mark.parametrize(("factor", "accepted"), [(1, True), (0.7, False), (1.3, False)])
def test_the_noise_is_laplace_of_scale_alpha_over_epsilon(noise, group, scale, factor, accepted):
    assert is_laplace(factor * noise[group], scale) == accepted


@pytest.mark.slow
def test_the_noise_of_one_group_tells_nothing_of_another(noise):
    deviations = (
        np.sqrt(20_000)
        * np.corrcoef([np.sign(noise[name]) for name in TRUE])[np.triu_indices(3, 1)]
    )
    assert np.abs(deviations).max() < 5.5  # false alarm 1e-7


def test_two_draws_differ_in_every_entry(ledger):
    wide = Range(1e-9, 1e9)
    ledger.set_budget("chain", Adjacency(), Fraction(1))
    far = private_grid(**{name: np.full(len(values), 1e5) for name, values in TRUE.items()})
    first, second = (
        release(far, bounds=Bounds(dict.fromkeys(("k", "k_r", "m", "d"), wide)), ledger=ledger)
        for _ in range(2)
    )
    for name in TRUE:
        assert (first.values[name] != second.values[name]).all()


def test_every_entry_is_clipped_to_its_public_bounds():
    bounds = Bounds({"k": Range(30, 31), "m": Range(15, 16), "d": Range(12, 12.5)})
    noisy = demo(adjacency=Adjacency(alpha=dict.fromkeys("kmd", Fraction(10**6))), bounds=bounds)
    for name in TRUE:
        public = bounds[name]
        assert set(noisy.values[name]) <= {public.lower, public.upper}
    assert noisy.clipped() == {"k": 4, "m": 3, "d": 3}


def test_the_noisy_grid_holds_no_true_value(ledger):
    held = pickle.dumps(release(ledger=ledger))
    assert not [form for values in TRUE.values() for form in traces(values) if form in held]


# --- the ledger -----------------------------------------------------------------------------------


def test_a_real_release_needs_a_ledger():
    with pytest.raises(OptionError, match="needs a ledger"):
        release(ledger=None)


def test_the_charge_is_in_the_ledger_before_the_draw(ledger, monkeypatch):
    seen, draw = [], SecureSampler.draw

    def spy(sampler, values, scale, noise):
        seen.extend(entry.state for entry in Ledger(ledger.location).entries())
        return draw(sampler, values, scale, noise)

    monkeypatch.setattr(SecureSampler, "draw", spy)
    guarantee = release(ledger=ledger, adjacency=Adjacency("one-asset", ALPHA)).guarantee
    (entry,) = ledger.entries("chain")
    assert seen == ["reserved"] * 3
    assert entry.state == "drawn"
    assert (entry.rule, entry.epsilon, entry.alpha) == ("one-asset", HALF, ALPHA)
    assert entry.spent == {name: loss.spent for name, loss in guarantee.groups.items()}


def test_a_draw_that_fails_stays_charged(ledger, monkeypatch):
    def fail(sampler, values, scale, noise):
        raise RuntimeError("no entropy")

    monkeypatch.setattr(SecureSampler, "draw", fail)
    with pytest.raises(RuntimeError, match="no entropy"):
        release(ledger=ledger)
    assert [entry.state for entry in ledger.entries()] == ["reserved"]
    assert all(total > 0 for total in ledger.accounts()["chain"].totals.values())


def test_a_ledger_that_refuses_prevents_the_draw(ledger, monkeypatch):
    drawn = []
    monkeypatch.setattr(SecureSampler, "draw", lambda *args: drawn.append(args))
    Path(ledger.location).write_bytes(b"no database")
    with pytest.raises(LedgerError, match="nothing was spent"):
        release(ledger=ledger)
    assert not drawn


# --- samplers -------------------------------------------------------------------------------------


def test_a_seeded_draw_is_a_demo_for_ever_and_charges_nothing(ledger):
    noisy = demo(ledger=ledger)
    assert noisy.demo
    assert noisy.guarantee.in_words().startswith("DEMO")
    assert "demo" in noisy.guarantee.mechanism
    assert ledger.entries() == []
    with pytest.raises(dataclasses.FrozenInstanceError):
        noisy.guarantee.demo = False


def test_a_secure_draw_is_no_demo_and_names_its_mechanism(ledger):
    noisy = release(ledger=ledger)
    assert not noisy.demo
    assert noisy.guarantee.mechanism.startswith("OpenDP")
    assert noisy.guarantee.in_words().startswith("ε-differential privacy with ε = 1/2")


class Silent(SecureSampler):
    def draw(self, values, scale, noise):
        return values


def test_only_the_secure_sampler_itself_makes_a_real_release(ledger):
    assert release(ledger=ledger, sampler=Silent()).demo


@pytest.mark.parametrize("seeds", [(1, 1), (1, 2)], ids=["same seed", "other seed"])
def test_a_demo_is_repeated_by_its_seed_alone(seeds):
    first, second = (release(sampler=DemoSampler(seed)) for seed in seeds)
    for name in TRUE:
        assert np.array_equal(first.values[name], second.values[name]) == (seeds[0] == seeds[1])


UNUSABLE = {
    "nan": ([27182.8, math.nan], 1.0),
    "inf": ([27182.8, math.inf], 1.0),
    "table": ([[27182.8]], 1.0),
    "scale 0": ([27182.8], 0.0),
    "scale -1": ([27182.8], -1.0),
    "scale nan": ([27182.8], math.nan),
    "scale inf": ([27182.8], math.inf),
}


@pytest.mark.parametrize("sampler", [SecureSampler(), DemoSampler(1)], ids=["secure", "demo"])
@pytest.mark.parametrize(("values", "scale"), UNUSABLE.values(), ids=UNUSABLE)
def test_values_and_scale_are_checked_before_opendp_sees_them(sampler, values, scale, monkeypatch):
    monkeypatch.setattr(laplace, "opendp", lambda: pytest.fail("OpenDP was called"))
    with pytest.raises(OptionError, match="Nothing was drawn") as refusal:
        sampler.draw(np.array(values), scale, USUAL)
    assert "27182" not in all_that_it_says(refusal.value)
