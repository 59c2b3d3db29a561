"""The audit of joint noise: honest noise passes, by whole rows, and planted faults are caught."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import kstest

from gridveil.assurance.audit import (
    Effort,
    alphas,
    audit_adjacency,
    audit_low_bits,
    audit_sums,
    measure_advantage,
    perturbed,
)
from gridveil.assurance.audit.constant import audit_constant
from gridveil.assurance.audit.noise import audit_noise
from gridveil.assurance.audit.releases import Kind, by_bundle, by_perturb, pair_of_sums
from gridveil.assurance.audit.rows import row_uniforms
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import Allocation
from gridveil.privacy.mechanisms import Box, Hexagon
from gridveil.vault.sampler import DemoSampler, SecureSampler
from planted_faults import (
    columns_reuse_their_noise,
    fast_noise,
    joint_noise_of_smaller_scale,
    last_reuses_the_first,
    no_noise_above_the_bound,
    redrawn_until_inside,
    sums_are_redrawn_until_inside,
    sums_have_no_noise_at_the_bound,
    true_value_in_a_public_figure,
)

ONE = Fraction(1)
LEVEL = 1e-6
RULES = ("one-asset", "one-asset-relative")
BOXES = Allocation(dict.fromkeys("kmd", "box"))
PAIRS = Allocation({"k": "items", "m": "box", "d": "box"})
MEANS = Allocation({"k": "items", "m": "box-means", "d": "box-means"})
KINDS = {
    "boxes": Kind("boxes", BOXES),
    "pairs": Kind("pairs", PAIRS),
    "pairs as clipped": Kind("pairs as clipped", PAIRS, "clipped"),
    "means": Kind("means", MEANS),
}


def audited(rule, kind, releases=150, *, opens=by_perturb, sampler=None):
    return audit_noise(
        "x",
        Adjacency(rule, alphas()),
        ONE,
        releases,
        KINDS[kind],
        opens=opens,
        sampler=sampler,
        level=LEVEL,
    )


def canaries(rule, sampler, count=40_000, epsilon=ONE, allocation=PAIRS):
    adjacency = Adjacency(rule, alphas())
    draw = perturbed(adjacency, epsilon, sampler, allocation)
    return audit_adjacency(adjacency, epsilon, count, draw=draw, workers=1)


# --- rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_rows_become_uniform_and_independent_however_they_are_clipped(d):
    n, random = 20_000, np.random.default_rng(d)
    low = np.tile(np.resize([-3.0, 0.5, -1.0, -40.0], d), (n, 1))
    high = np.tile(np.resize([1.0, 2.0, -0.5, 40.0], d), (n, 1))
    z = np.clip(Box(d).seeded(random, 1.0, (n, d)), low, high)
    u = row_uniforms(z, low, high, Box(d), random)
    limit = (np.log(2 / 1e-7) / (2 * n)) ** 0.5
    # products of sizes and of signs are what dependence of a row would show in
    for one in (u, np.abs(2 * u - 1)):
        assert all(kstest(one[:, j], "uniform").statistic < limit for j in range(d))
        apart = np.corrcoef(one.T) if d > 1 else np.eye(1)
        assert np.abs(apart - np.eye(d)).max() < 5.5 / n**0.5
    if d > 1:  # as the marginals are not
        marginal = np.abs(2 * Box(d).cdf(Box(d).seeded(random, 1.0, (n, d))) - 1)
        assert np.corrcoef(marginal.T)[0, 1] > 0.1


# --- honest noise passes --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES)
def test_seeded_noise_of_the_right_law_passes(rule, kind):
    assert audited(rule, kind, sampler=DemoSampler(1)).passed


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES)
def test_secure_noise_passes_as_it_lies_in_bundles(rule, kind):
    assert audited(rule, kind, 30, opens=by_bundle).passed


@pytest.mark.parametrize("rule", RULES)
def test_no_byte_of_a_bundle_depends_on_the_table_but_through_noise(rule):
    assert audit_constant(Adjacency(rule, alphas()), ONE, tuple(KINDS.values())).passed


@pytest.mark.parametrize("rule", RULES)
def test_canaries_prove_nearly_all_of_epsilon_and_never_more(rule):
    found = canaries(rule, SecureSampler(), 20_000)
    assert all(row.passed for row in found)
    assert ONE * (1 - Fraction(1, 10**9)) < found[0].epsilon <= ONE  # charged once for a machine
    assert found[0].lower_95 > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("allocation", [PAIRS, BOXES], ids=["pairs", "boxes"])
@pytest.mark.parametrize("rule", RULES)
def test_many_canaries_prove_nearly_all_of_epsilon_and_never_more(rule, allocation):
    found = canaries(rule, SecureSampler(), 300_000, allocation=allocation)
    assert all(row.passed for row in found)
    assert found[0].lower_95 > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_means_are_audited_each_in_a_release_of_its_own(rule):
    class Smaller(DemoSampler):
        def draw(self, values, scale, noise):
            return super().draw(values, scale / 1.5, noise)

    honest, small = (
        audit_sums(Adjacency(rule, alphas()), ONE, 12_000, sampler=sampler, allocation=MEANS)
        for sampler in (DemoSampler(1), Smaller(1))
    )
    assert honest.passed and honest.epsilon <= ONE
    assert honest.lower_95 > 0.8
    assert not small.passed


def check_advantage(epsilon, draws, sampler):
    adjacency = Adjacency("one-asset", alphas())
    draw = perturbed(adjacency, epsilon, sampler, BOXES)
    found = measure_advantage(adjacency, epsilon, draws, draw=draw, workers=1)
    assert {row.moved for row in found} == {"k", "m, d"}
    for row in found:
        assert row.passed
        assert row.exact == pytest.approx(1 - np.exp(-float(epsilon) / 2), rel=1e-9)


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), ONE, Fraction(2)], ids=str)
def test_the_all_but_one_adversary_has_the_advantage_of_the_box(epsilon):
    check_advantage(epsilon, 20_000, DemoSampler(1))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), ONE, Fraction(2)], ids=str)
def test_the_secure_noise_gives_that_advantage(epsilon):
    check_advantage(epsilon, 100_000, SecureSampler())


# --- planted faults -------------------------------------------------------------------------------

FAULTS = (
    no_noise_above_the_bound,
    last_reuses_the_first,
    redrawn_until_inside,
    columns_reuse_their_noise,
)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", ["boxes", "pairs"])
@pytest.mark.parametrize("rule", RULES)
def test_a_fault_at_the_bounds_or_within_a_row_is_caught(monkeypatch, fault, kind, rule):
    fast_noise(monkeypatch)
    fault(monkeypatch)
    assert not audited(rule, kind).passed


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_the_same_faults_are_caught_in_bundles(monkeypatch, fault):
    fast_noise(monkeypatch)
    fault(monkeypatch)
    assert not audited("one-asset", "pairs as clipped", 200, opens=by_bundle).passed


@pytest.mark.parametrize("factor", [0.85, 1.15])
@pytest.mark.parametrize("rule", RULES)
def test_another_scale_is_caught(monkeypatch, rule, factor):
    fast_noise(monkeypatch)
    joint_noise_of_smaller_scale(monkeypatch, factor)
    assert not audited(rule, "pairs", 1200).passed


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.85, 1.15])
def test_another_scale_of_means_is_caught(monkeypatch, factor):
    fast_noise(monkeypatch)
    joint_noise_of_smaller_scale(monkeypatch, factor)
    assert not audited("one-asset", "means", 6000).passed


@pytest.mark.parametrize("rule", RULES)
def test_canaries_catch_noise_of_085_of_its_scale(rule):
    class Smaller(DemoSampler):
        def draw(self, values, scale, noise):
            return super().draw(values, 0.85 * scale, noise)

    assert not canaries(rule, Smaller(1), 60_000)[0].passed
    assert canaries(rule, DemoSampler(1), 60_000)[0].passed


def test_independent_noise_at_the_scale_of_the_box_is_caught():
    class Independent(DemoSampler):
        """Laplace noise, of the same scale on each value of a row: 2 ε in truth."""

        def draw(self, values, scale, noise):
            return values + self._random.laplace(0, scale, values.shape)

    assert not canaries("one-asset", Independent(1))[0].passed
    assert not audited("one-asset", "pairs", sampler=Independent(1)).passed


@pytest.mark.parametrize("figure", ["omega_b", "droop_gain"])
def test_a_true_value_in_the_12th_digit_of_a_public_figure_is_caught(monkeypatch, figure):
    true_value_in_a_public_figure(monkeypatch, figure)
    kinds = tuple(KINDS.values())
    assert not audit_constant(Adjacency("one-asset", alphas()), ONE, kinds).passed


def test_low_bits_give_a_float_sampler_away_and_ours_not():
    assert not audit_low_bits(DemoSampler(1), draws=60_000, noise=Box(1)).passed
    found = audit_low_bits(SecureSampler(), draws=60_000, noise=Box(1))
    assert found.passed
    assert found.counts.guesses > 1000


# --- the hexagon, on a pair of sums ---------------------------------------------------------------

HEXAGON = Allocation({"k": "items", "m": "hexagon-0.4", "d": "hexagon-0.4"})
PER_GROUP = Allocation(dict(HEXAGON.draws), {"k": ONE / 5, "m": ONE * 4 / 5, "d": ONE * 4 / 5})
OF_SUMS = {
    "one-asset": Kind("pair of sums", HEXAGON),
    "one-per-group": Kind("pair of sums", PER_GROUP),
}


def audited_sums(rule, releases=400, sampler=None):
    adjacency = Adjacency(rule, alphas())
    return audit_noise("x", adjacency, ONE, releases, OF_SUMS[rule], sampler=sampler, level=LEVEL)


@pytest.mark.parametrize("c", [ONE / 5, ONE * 3 / 5], ids=str)
def test_pairs_become_uniform_and_independent_however_they_are_clipped(c):
    n, random, law = 20_000, np.random.default_rng(1), Hexagon(c)
    low, high = (np.tile(ends, (n, 1)) for ends in ([-3.0, 0.5], [1.0, 2.0]))
    low[::2], high[::2] = [-1.0, -40.0], [-0.5, 40.0]
    low[1::4], high[1::4] = [-40.0, -0.3], [40.0, 0.4]
    z = np.clip(law.seeded(random, 1.0, (n, 2)), low, high)
    u = row_uniforms(z, low, high, law, random)
    limit = (np.log(2 / 1e-7) / (2 * n)) ** 0.5
    for one in (u, np.abs(2 * u - 1)):
        assert all(kstest(one[:, j], "uniform").statistic < limit for j in (0, 1))
        assert np.abs(np.corrcoef(one.T)[0, 1]) < 5.5 / n**0.5


@pytest.mark.parametrize("rule", OF_SUMS)
def test_honest_noise_on_a_pair_of_sums_passes(rule):
    assert audited_sums(rule, sampler=DemoSampler(1)).passed


@pytest.mark.parametrize(
    "fault",
    [
        columns_reuse_their_noise,
        sums_have_no_noise_at_the_bound,
        sums_are_redrawn_until_inside,
    ],
)
def test_a_fault_in_a_pair_of_sums_is_caught(monkeypatch, fault):
    fast_noise(monkeypatch)
    fault(monkeypatch)
    assert not audited_sums("one-asset", releases=1000).passed


@pytest.mark.slow
def test_another_scale_and_independent_noise_on_a_pair_of_sums_are_caught():
    class Smaller(DemoSampler):
        def draw(self, values, scale, noise):
            return super().draw(values, 0.85 * scale, noise)

    class Independent(DemoSampler):
        def draw(self, values, scale, noise):
            return values + self._random.laplace(0, scale, values.shape)

    for fault in (Smaller(1), Independent(1)):
        assert not audited_sums("one-asset", 4000, fault).passed


def test_the_audit_lists_a_pair_of_sums_where_both_may_move_at_once():
    for rule, listed in (("one-asset", 1), ("one-per-group", 1), ("one-item", 0)):
        adjacency = Adjacency(rule, alphas())
        found = pair_of_sums(adjacency)
        assert len(found) == listed
        names = [name for name, *_ in Effort.of(1000, "thorough").fits(adjacency)]
        assert ("pair of sums" in names) == bool(listed)
        for kind in found:
            assert kind.allocation.over(adjacency).together.keys() == {"m", "d"}


@pytest.mark.parametrize("rule", OF_SUMS)
def test_no_byte_of_a_bundle_of_a_pair_depends_on_the_table_but_through_noise(rule):
    adjacency = Adjacency(rule, alphas())
    assert audit_constant(adjacency, ONE, pair_of_sums(adjacency)).passed


def test_low_bits_of_pairs_give_a_float_sampler_away_and_ours_not():
    law = Hexagon(ONE * 3 / 5)
    assert not audit_low_bits(DemoSampler(1), draws=60_000, noise=law, width=2).passed
    found = audit_low_bits(SecureSampler(), draws=20_000, noise=law, width=2)
    assert found.passed and found.counts.guesses > 100


@pytest.mark.parametrize("c", [ONE / 5, ONE * 3 / 5], ids=str)
@pytest.mark.parametrize("epsilon", [ONE / 2, ONE, ONE * 2], ids=str)
def test_the_all_but_one_adversary_has_the_advantage_of_the_hexagon(epsilon, c):
    """The best test between neighbours of which both sums moved guesses by the sign of the ratio;
    what it gains over a coin is compared with the closed form within five deviations.
    """
    law, random, n = Hexagon(c), np.random.default_rng(1), 200_000
    losses = np.full(2, float(epsilon))
    z = law.seeded(random, 1.0, (n, 2))
    right = (law.ratio_of_rows(z + losses / 2, losses) > 0).mean()
    assert 2 * right - 1 == pytest.approx(law.advantage(losses.tolist()), abs=5 / n**0.5 + 1e-3)
    assert law.advantage(losses.tolist()) < 1 - np.exp(-float(epsilon) / 2)  # below the box's


@pytest.mark.slow
@pytest.mark.parametrize("rule", OF_SUMS)
def test_canaries_in_a_pair_of_sums_prove_most_of_epsilon_and_never_more(rule):
    class Smaller(DemoSampler):
        def draw(self, values, scale, noise):
            return super().draw(values, scale / 1.5, noise)

    honest, small = (
        audit_sums(
            Adjacency(rule, alphas()),
            ONE,
            8000,
            sampler=sampler,
            allocation=OF_SUMS[rule].allocation,
        )
        for sampler in (DemoSampler(1), Smaller(1))
    )
    assert honest.passed and honest.epsilon <= ONE
    assert honest.lower_95 > 0.5
    assert not small.passed
