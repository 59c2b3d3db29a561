"""Noise of the hexagon norm on a pair of sums: its sampler against closed forms, its loss in exact
fractions under every adjacency, and how plans, guarantees, ledgers and bundles count it.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.stats import chi2, kstest

from gridveil.foundation.errors import BudgetExceeded, OptionError
from gridveil.grid.parameters import Bounds, assets
from gridveil.inference.posterior import Posterior
from gridveil.inference.prior import OfSum
from gridveil.privacy.adjacency import RULES, Adjacency
from gridveil.privacy.allocation import Allocation
from gridveil.privacy.guarantee import whole_loss
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms import HEXAGONS, Hexagon, hexagon, named
from gridveil.privacy.mechanisms.box import on_lattice
from gridveil.privacy.mechanisms.hexagon import integers
from gridveil.publication.bundle import load, verify, write
from gridveil.publication.stated import release_problems
from gridveil.readers.cases import open_grid
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler, SecureSampler
from gridveil.workflow.publish import publish

ONE, HALF, FIFTH = Fraction(1), Fraction(1, 2), Fraction(1, 5)
SHARES = {"k": FIFTH, "m": 4 * FIFTH, "d": 4 * FIFTH}
PAIR = Allocation({"k": "items", "m": "hexagon-0.4", "d": "hexagon-0.4"})
ALLOWED = [rule for rule in RULES if "one-item" not in rule]
WEIGHTS = [mechanism.noise.c for mechanism in HEXAGONS]


def noisy(rule="one-asset", epsilon=ONE, allocation=PAIR, **given):
    settings = {"ledger": None, "sampler": DemoSampler(1)} | given
    if "per-group" in rule and allocation.shares is None:
        allocation = Allocation(dict(allocation.draws), SHARES)
    return perturb(
        open_grid("star5"),
        epsilon=epsilon,
        adjacency=Adjacency(rule),
        bounds=Bounds(),
        allocation=allocation,
        **settings,
    )


def norm(c, x, y):
    return max(abs(y), c * abs(x) + (1 - c) * abs(y))


# --- the sampler against closed forms -------------------------------------------------------------


@pytest.mark.parametrize("c", WEIGHTS, ids=str)
def test_on_a_coarse_lattice_every_point_and_shell_has_its_exact_weight(monkeypatch, c):
    monkeypatch.setattr(hexagon, "FINEST", 1)  # p (r − p) steps to a scale: one can count them
    steps, count = Hexagon(c).steps, 20_000
    reach = range(-60 * steps, 60 * steps + 1)
    x, y = np.meshgrid(reach, range(-12 * steps, 12 * steps + 1), indexing="ij")
    size = np.maximum(np.abs(y), float(c) * np.abs(x) + float(1 - c) * np.abs(y)) / steps
    weight = np.exp(-size)
    drawn = np.array(integers(count, c))
    at = np.maximum(
        np.abs(drawn[:, 1]), float(c) * np.abs(drawn[:, 0]) + float(1 - c) * np.abs(drawn[:, 1])
    )
    # shells of the norm, and whether x or y is the larger, and the four quadrants
    edges = np.append(np.arange(0, 6, 0.5) + 1e-9, np.inf)

    def cells(a, b, shell):
        larger = np.abs(a) > np.abs(b)
        return np.searchsorted(edges, shell) * 8 + larger * 4 + (a > 0) * 2 + (b > 0)

    kinds = 8 * (len(edges) + 1)
    expected = np.bincount(cells(x, y, size).ravel(), weight.ravel(), minlength=kinds)
    counts = np.bincount(cells(drawn[:, 0], drawn[:, 1], at / steps), minlength=kinds)
    for factor, accepted in ((1.0, True), (1.3, False)):
        share = expected
        if not accepted:
            other = np.exp(-size * factor)
            share = np.bincount(cells(x, y, size).ravel(), other.ravel(), minlength=kinds)
        share = count * share / share.sum()
        kept = share > 30
        p = chi2.sf(((counts - share)[kept] ** 2 / share[kept]).sum(), kept.sum() - 1)
        assert p > 1e-6 if accepted else p < 1e-12


@pytest.mark.parametrize("sampler", [SecureSampler(), DemoSampler(1)], ids=["secure", "demo"])
@pytest.mark.parametrize("c", WEIGHTS, ids=str)
def test_the_variances_are_those_of_the_closed_form(sampler, c):
    n, scale, t = 6000, np.array([3.0, 0.5]), 1 / float(c)
    drawn = sampler.draw(np.zeros((n, 2)), scale, Hexagon(c)) / scale
    x = 4 * ((t**4 - 1) / (4 * (t - 1))) / (1 + (t - 1) / 2)
    y = 12 * (1 / 3 + (t - 1) / 12) / (1 + (t - 1) / 2)
    for column, variance in enumerate((x, y)):
        law = Hexagon(c, column)
        assert law.deviation**2 == pytest.approx(variance)
        fourth = 2 * quad(lambda z, law=law: z**4 * law._alone(np.array(z)), 0, 200 * t)[0]
        spread = math.sqrt((fourth - variance**2) / n)
        assert abs((drawn[:, column] ** 2).mean() - variance) < 5.5 * spread


@pytest.mark.parametrize("c", WEIGHTS, ids=str)
def test_uniform_and_independent_if_and_only_if_of_this_law(c):
    law, random = Hexagon(c), np.random.default_rng(3)
    limit = math.sqrt(math.log(2 / 1e-7) / 40_000)
    u = law.independent(law.seeded(random, 1.0, (20_000, 2)))
    assert all(kstest(u[:, j], "uniform").statistic < limit for j in (0, 1))
    assert abs(np.corrcoef(np.abs(2 * u - 1).T)[0, 1]) < 0.04
    swapped = law.independent(law.seeded(random, 1.0, (20_000, 2))[:, ::-1])
    assert kstest(swapped[:, 1], "uniform").statistic > limit
    places = random.random((200, 2)) - 0.5
    assert law.independent(law.rows(places)) == pytest.approx(places + 0.5, abs=1e-9)


def test_acceptance_is_exact_bernoulli_of_an_exponential():
    n = 40_000
    for times, of in ((1, 3), (7, 3), (0, 5)):
        hit = sum(hexagon._happens(times, of) for _ in range(n)) / n
        exact = math.exp(-times / of)
        assert abs(hit - exact) <= 5.5 * math.sqrt(exact * (1 - exact) / n)


# --- one value alone ------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 1])
def test_the_marginal_is_what_the_pair_integrates_to(place):
    c, z = 0.4, np.array([0.0, 0.3, 1.0, 4.0, 11.0])
    law = Hexagon(Fraction(2, 5), place)
    whole = 4 * (1 + 1 / c)

    def along(one):
        def weight(t):
            return math.exp(-norm(c, *((one, t) if place == 0 else (t, one))))

        return 2 * (quad(weight, 0, one)[0] + quad(weight, one, 150)[0]) / whole

    density = np.array([along(one) for one in z])
    assert law.likelihood(z, np.ones(5), np.zeros(5)) == pytest.approx(density, rel=1e-6)
    slope = (law.cdf(z + 1e-5) - law.cdf(z - 1e-5)) / 2e-5
    assert slope == pytest.approx(density, rel=1e-3, abs=1e-9)
    assert law.cdf(-z) == pytest.approx(1 - law.cdf(z))
    assert law.quantile(law.cdf(z) - 0.5) == pytest.approx(z, abs=1e-6)
    assert law.likelihood(np.array([law.reach]), np.ones(1), np.zeros(1))[0] < 1e-18
    ratio = np.log(density[1] / along(0.7))
    assert law.ratio(np.array([-0.5]), 0.4)[0] == pytest.approx(-ratio)


def test_posterior_means_grow_with_what_was_drawn():
    y = np.linspace(6, 240, 60)
    for place in (0, 1):
        law = Hexagon(FIFTH, place)
        mean = Posterior.of(y, 20.0, 6.0, 240.0, noise=law).mean
        assert (np.diff(mean) > 0).all()


@pytest.mark.parametrize("sums", [(60.0, 30.0), (8.0, 26.0), (21.0, 12.0)], ids=str)
def test_a_pair_tells_no_more_of_its_sums_than_each_value_alone(sums):
    """Why estimates use each value's own law. Oracle: the joint posterior of unclipped pairs, on a
    grid, with the same priors.
    """
    law, prior, (low, high) = Hexagon(Fraction(1, 4)), OfSum(entries=6), np.log([6.0, 240.0])
    s = low + (high - low) * (np.arange(400) + 0.5) / 400
    x, weight = np.exp(s), prior.density(s, low, high)
    pairs = sums + law.seeded(np.random.default_rng(7), 1.0, (100, 2))
    size = np.abs(x - pairs[:, :, None])
    far = np.maximum(size[:, None, 1], 0.25 * size[:, 0, :, None] + 0.75 * size[:, None, 1])
    joint = np.exp(-far) * weight[:, None] * weight
    joint /= joint.sum(axis=(1, 2), keepdims=True)
    for place in (0, 1):
        alone = Posterior.of(
            pairs[:, place], 1.0, 6.0, 240.0, noise=replace(law, place=place), prior=prior
        )
        both = joint.sum(axis=2 - place) @ x
        errors = [np.mean(np.log(found / sums[place]) ** 2) for found in (alone.mean, both)]
        assert errors[0] == pytest.approx(errors[1], rel=0.03)


def test_the_advantage_is_what_the_plane_integrates_to():
    c, law = 0.4, Hexagon(Fraction(2, 5))

    def least(y, x, a, b):
        return math.exp(-max(norm(c, x - a, y - b), norm(c, x + a, y + b)))

    for losses in ([1.0, 1.0], [2.0, 0.0]):
        a, b = (loss / 2 for loss in losses)
        overlap = dblquad(least, -60, 60, -25, 25, args=(a, b), epsabs=3e-3, epsrel=1e-3)[0] / (
            4 * (1 + 1 / c)
        )
        assert law.advantage(losses) == pytest.approx(1 - overlap, abs=2e-3)
        assert law.advantage(losses) <= math.tanh(max(losses) / 2)


# --- the loss, in exact fractions -----------------------------------------------------------------


@pytest.mark.parametrize("c", WEIGHTS, ids=str)
@pytest.mark.parametrize("epsilon", [Fraction(1, 7), ONE, Fraction(9, 5)], ids=str)
def test_neighbours_never_lie_further_apart_than_what_was_charged(c, epsilon):
    law, random = Hexagon(c), np.random.default_rng(1)
    distance = {"x": Fraction(1), "y": Fraction(5, 16)}  # what floats add exactly
    made = {name: law.calibrate(apart, epsilon, 1) for name, apart in distance.items()}
    assert all(Fraction(one.spent) <= epsilon for one in made.values())
    step = {name: Fraction(one.scale) / law.steps for name, one in made.items()}
    for _ in range(300):
        at = {name: random.integers(2**30) / 2**20 for name in distance}
        steps = {
            name: abs(
                on_lattice(at[name] + float(sign * distance[name]), step[name])
                - on_lattice(at[name], step[name])
            )
            for name, sign in zip(distance, random.choice([-1, 1], 2).tolist(), strict=True)
        }
        charged = law.steps * Fraction(made["x"].spent)
        assert norm(c, steps["x"], steps["y"]) <= charged
        assert norm(c, steps["x"], 0) <= c * charged


@pytest.mark.parametrize("rule", ALLOWED)
def test_each_kind_of_neighbour_has_its_own_loss(rule):
    made = noisy(rule).guarantee
    groups, mechanism = made.groups, named("hexagon-0.4")
    share = 4 * FIFTH if "per-group" in rule else ONE
    assert [groups[name].place for name in "md"] == [0, 1]
    spent = Fraction(groups["d"].spent)
    assert spent == groups["m"].spent and 0 <= share - spent < Fraction(1, 10**9)
    pair = {name: groups[name] for name in "md"}
    for moved, times in (((), 0), (("m",), Fraction(2, 5)), (("d",), 1), (("m", "d"), 1)):
        assert mechanism.loss(pair, moved) == times * spent
    whole = {"k": FIFTH, "m": share}
    lines = Fraction(groups["k"].spent)
    both = lines + spent if "per-group" in rule else max(lines, spent)
    assert made.spent == whole_loss(Adjacency(rule), groups, assets()) == both <= 1
    assert whole["m"] == groups["m"].epsilon


def test_the_first_of_the_two_is_inertia_whatever_the_order_of_the_shares():
    shares = {"d": ONE, "m": ONE, "k": ONE}
    groups = noisy(allocation=Allocation(dict(PAIR.draws), shares)).guarantee.groups
    assert (groups["m"].place, groups["d"].place) == (0, 1)
    assert groups["m"].noise == Hexagon(Fraction(2, 5), 0)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in ALLOWED])
def test_it_is_refused_where_one_entry_alone_moves(rule):
    with pytest.raises(OptionError, match="gains nothing under"):
        noisy(rule)


def test_one_parameter_alone_and_unequal_shares_are_refused():
    with pytest.raises(OptionError, match="asked to draw m"):
        noisy(allocation=Allocation({"k": "items", "m": "hexagon-0.4", "d": "sum"}))
    with pytest.raises(OptionError, match="shares of ε of m, d differ"):
        noisy(allocation=Allocation(dict(PAIR.draws), {"k": ONE, "m": HALF, "d": ONE}))


# --- ledger, bundle and the real thing ------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path):
    return Ledger(
        tmp_path / "ledger.sqlite", safe=tmp_path / "safe", witness=tmp_path / "witness.sqlite"
    )


@pytest.mark.parametrize("rule", ALLOWED)
def test_the_ledger_adds_the_pair_once(ledger, rule):
    ledger.set_budget("star5", Adjacency(rule), Fraction(2))
    near = Fraction(1, 10**9)
    for number in (1, 2):
        noisy(rule, ledger=ledger, sampler=SecureSampler())
        account = ledger.accounts()["star5"]
        assert number * (1 - near) < account.spent <= number
    assert "hexagon-0.4: d, m" in account.totals
    with pytest.raises(BudgetExceeded, match="does not cover"):
        noisy(rule, ledger=ledger, sampler=SecureSampler())
    assert ledger.verify() == []


@pytest.mark.parametrize("rule", ALLOWED)
def test_a_real_bundle_of_it_is_verified_and_forgeries_are_found(ledger, tmp_path, rule):
    shares = SHARES if "per-group" in rule else None
    release = publish(
        open_grid("star5"),
        epsilon=ONE,
        adjacency=Adjacency(rule),
        bounds=Bounds(),
        ledger=ledger,
        allocation=Allocation(dict(PAIR.draws), shares),
    )
    write(release, tmp_path / "bundle")
    report, loaded = verify(tmp_path / "bundle"), load(tmp_path / "bundle")
    assert not report.demo
    assert dict(loaded.guarantee.groups) == dict(release.guarantee.groups)
    assert "for noise of the hexagon norm" in loaded.guarantee.mechanism
    assert np.isfinite(loaded.simulate("uniform:+10%").omega).all()
    assert not list(release_problems(release))

    def forged(**changes):
        groups = dict(release.guarantee.groups)
        groups |= {name: replace(groups[name], **change) for name, change in changes.items()}
        return list(
            release_problems(replace(release, guarantee=replace(release.guarantee, groups=groups)))
        )

    scale = release.guarantee.groups["m"].scale
    smaller = forged(m={"scale": 0.9 * scale})
    assert any("noise on m has a scale that costs more" in problem for problem in smaller)
    assert "m, d cannot have been drawn together as stated" in forged(m={"together": 1})
