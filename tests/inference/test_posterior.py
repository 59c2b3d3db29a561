"""The posterior under clipped Laplace noise, against scipy's adaptive quadrature, exponential
integrals and brute force.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import exp1, expi
from scipy.stats import kstest
from scipy.stats import t as student

from detailed_releases import detailed
from gridveil.foundation.errors import OptionError
from gridveil.grid.parameters import Bounds, Range
from gridveil.inference.posterior import Posterior, beliefs, middle, no_release, posterior_mean
from gridveil.inference.prior import AROUND_MIDDLE, OfSum, around_middle, log_uniform
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.mechanisms import GroupLoss
from gridveil.readers.cases import open_grid
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.workflow.detailed import allocate

ALPHA, SIGNED = Fraction(1, 20), Range(-1.0, 1.0, signed=True)

# y, b, lower, upper: inside, at both clip values, noise far wider and far narrower than the box, a
# box over six decades.
CASES = [
    (12.0, 6.0, 1.0, 100.0),
    (1.0, 6.0, 1.0, 100.0),
    (100.0, 6.0, 1.0, 100.0),
    (1.0, 600.0, 1.0, 40.0),
    (7.0, 0.01, 1.0, 40.0),
    (1.0, 0.001, 1.0, 100.0),
    (3.0, 0.5, 1e-3, 1e3),
    (1e-3, 2.0, 1e-3, 1e3),
    (5.0, np.inf, 1.0, 100.0),
]


def by_quad(function, y, b, lower, upper):
    """E[function(x)] by adaptive quadrature in x, cut at y and around it."""
    cuts = {lower, y, upper}
    for reach in (1, 5, 20, 60):
        cuts |= (
            {min(max(y + sign * reach * b, lower), upper) for sign in (-1, 1)}
            if np.isfinite(b)
            else set()
        )
    cuts |= {float(cut) for cut in np.geomspace(lower, upper, 9)}
    ends = sorted(cuts)

    def integral(weight):
        pieces = [
            quad(
                lambda x: weight(x) * np.exp(-abs(x - y) / b) / x,
                start,
                end,
                epsabs=0,
                epsrel=1e-12,
                limit=200,
            )[0]
            for start, end in itertools.pairwise(ends)
            if np.exp(-min(abs(start - y), abs(end - y)) / b) > 1e-30
        ]
        return sum(pieces)

    return integral(function) / integral(lambda x: 1.0)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_moments_are_those_of_adaptive_quadrature(case):
    belief = Posterior.of(*case)
    mean, log_mean = by_quad(lambda x: x, *case), by_quad(np.log, *case)
    expected = [
        mean,
        by_quad(lambda x: (x - mean) ** 2, *case),
        log_mean,
        by_quad(lambda x: (np.log(x) - log_mean) ** 2, *case),
    ]
    found = [belief.mean[0], belief.variance[0], belief.log_mean[0], belief.log_variance[0]]
    assert found == pytest.approx(expected, rel=1e-8, abs=1e-12)


def test_the_mean_is_that_of_exponential_integrals():
    y, b, lower, upper = np.array([1.0, 3.0, 20.0, 80.0, 100.0]), 6.0, 1.0, 100.0
    weight = np.exp(-y / b) * (expi(y / b) - expi(lower / b)) + np.exp(y / b) * (
        exp1(y / b) - exp1(upper / b)
    )
    first = b * (2 - np.exp(-(y - lower) / b) - np.exp(-(upper - y) / b))
    assert Posterior.of(y, b, lower, upper).mean == pytest.approx(first / weight, rel=1e-10)


def test_the_posterior_is_the_share_of_true_values_that_gave_the_release():
    """Draw x from the prior, add noise, clip; of those that came out at a bound, or near a value,
    take the mean.
    """
    random = np.random.default_rng(5)
    x = np.exp(random.uniform(0, np.log(40), 2_000_000))
    y = np.clip(x + random.laplace(0, 6, len(x)), 1, 40)
    for at, near in ((1.0, y == 1), (40.0, y == 40), (15.0, np.abs(y - 15) < 0.1)):
        error = x[near].std() / np.sqrt(near.sum())
        assert Posterior.of(at, 6.0, 1, 40).mean[0] == pytest.approx(x[near].mean(), abs=4 * error)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_inverse_distribution_function_inverts(case):
    share = np.linspace(0.01, 0.99, 9)[:, None]
    found = Posterior.of(*case).quantile(share)[:, 0]
    assert (np.diff(found) > 0).all()
    for x, wanted in zip(found, share[:, 0], strict=True):
        below = by_quad_up_to(x, *case)
        assert below == pytest.approx(wanted, abs=1e-8)


def by_quad_up_to(end, y, b, lower, upper):
    cuts = sorted(
        {
            lower,
            end,
            *(
                cut
                for cut in (y, *(y + b * np.array([-60, -20, -5, 5, 20, 60])))
                if lower < cut < upper
            ),
            upper,
        }
    )
    parts = [
        (
            stop,
            quad(
                lambda s: np.exp(-abs(np.exp(s) - y) / b),
                np.log(start),
                np.log(stop),
                epsabs=0,
                epsrel=1e-11,
                limit=400,
            )[0],
        )
        for start, stop in itertools.pairwise(cuts)
        if np.exp(-max(start - y, y - stop, 0) / b) > 1e-30
    ]
    return sum(value for stop, value in parts if stop <= end) / sum(value for _, value in parts)


def test_samples_follow_the_posterior_and_stay_in_the_box():
    belief = Posterior.of([1.0, 12.0, 100.0], 6.0, 1.0, 100.0)
    drawn = belief.sample(np.random.default_rng(3), 20_000)
    assert drawn.shape == (20_000, 3)
    assert (drawn >= 1).all() and (drawn <= 100).all()
    assert drawn.mean(axis=0) == pytest.approx(
        belief.mean, abs=5 * np.sqrt(belief.variance.max() / 20_000)
    )
    grid = belief.quantile(np.linspace(0, 1, 2001)[:, None] * np.ones(3))
    for item in range(3):
        assert (
            kstest(
                drawn[:, item], lambda x, i=item: np.interp(x, grid[:, i], np.linspace(0, 1, 2001))
            ).pvalue
            > 1e-3
        )


def test_without_a_release_the_prior_is_log_uniform():
    belief = no_release({"k": 2, "m": 1, "d": 1}, Bounds())["k"]
    assert belief.log_mean == pytest.approx(np.full(2, np.log(100) / 2))
    assert belief.log_variance == pytest.approx(np.full(2, np.log(100) ** 2 / 12))
    assert belief.mean == pytest.approx(np.full(2, 99 / np.log(100)))


@pytest.mark.parametrize("box", [Range(1, 40), Range(0.004, 40), Range(0, 40)])
def test_the_middle_of_a_box_is_the_median_of_its_prior(box):
    prior = Posterior.of(1.0, np.inf, box.lower, box.upper)
    assert middle(box) == pytest.approx(prior.quantile(np.array([0.5]))[0])


def test_a_box_from_zero_starts_at_a_thousandth_of_its_end():
    assert Posterior.of(0.0, 1.0, 0.0, 40.0).lower == pytest.approx([0.04])


@pytest.mark.parametrize(
    "wrong", [(1.0, 0.0, 1.0, 2.0), (1.0, 1.0, 2.0, 1.0), (np.nan, 1.0, 1.0, 2.0)]
)
def test_a_posterior_of_nonsense_is_refused(wrong):
    with pytest.raises(OptionError, match="positive scales"):
        Posterior.of(*wrong)


def test_a_noisy_grid_is_believed_by_its_own_scales_and_bounds():
    source, bounds = open_grid("ieee30"), Bounds({"m": Range(2, 30)})
    noisy = perturb(
        source,
        epsilon=Fraction(1),
        adjacency=Adjacency("one-per-group"),
        bounds=bounds,
        ledger=None,
        sampler=DemoSampler(1),
    )
    belief = beliefs(noisy)
    assert {name: len(one.y) for name, one in belief.items()} == {"k": 41, "m": 6, "d": 6}
    assert belief["m"].scale == pytest.approx(np.full(6, 3.0), rel=1e-3)
    assert (belief["m"].lower == 2).all() and (belief["m"].upper == 30).all()
    better = posterior_mean(noisy)
    assert (better.values["m"] == belief["m"].mean).all()
    # of lines: the geometric mean, with a log-normal prior
    prior = Posterior.behind(
        noisy.values["k"], noisy.guarantee.groups["k"], noisy.range("k"), AROUND_MIDDLE
    )
    assert (better.values["k"] == np.exp(prior.log_mean)).all()
    assert better.facts is noisy.facts


@pytest.mark.parametrize(
    ("own", "public", "y"),
    [
        (GroupLoss("1", ALPHA, Fraction(1), 1.0, 0.4, "box", True, 2), Range(1, 10), 3.0),
        (GroupLoss("1", ALPHA, Fraction(1), 1.0, 0.1, "box-means", True, 7), Range(1, 10), 6.0),
        (GroupLoss("1", ALPHA, Fraction(1), 1.0, 0.4, "box", True, 2), Range(1, 10), 10.0),
        (GroupLoss("1", ALPHA, Fraction(1), 1.0, 0.1, "box-means", False, 2), SIGNED, 0.4),
        (GroupLoss("1", ALPHA, Fraction(1), 1.0, 0.1, "mean"), SIGNED, -1.0),
    ],
    ids=["a pair", "seven means", "clipped", "signed", "signed and clipped"],
)
def test_what_joint_noise_says_of_one_value_agrees_with_monte_carlo(own, public, y):
    random, n, d = np.random.default_rng(1), 2_000_000, own.together
    low, high = public.lower, public.upper
    x = random.uniform(low, high, n) if public.signed else np.geomspace(low, high, n)
    noise = own.noise.seeded(random, own.scale, (n, d))[:, 0]
    drawn = np.clip(x * np.exp(noise) if own.relative else x + noise, low, high)
    near = drawn == y if y in (low, high) else np.abs(drawn - y) < 0.01 * (high - low)
    belief = Posterior.behind(y, own, public)
    assert near.sum() > 20_000
    assert x[near].mean() == pytest.approx(belief.mean[0], rel=0.02, abs=0.003)
    assert x[near].std() == pytest.approx(belief.variance[0] ** 0.5, rel=0.03)
    shares = np.array([[0.1], [0.5], [0.9]])
    assert np.quantile(x[near], shares[:, 0]) == pytest.approx(
        belief.quantile(shares)[:, 0], rel=0.03, abs=0.005
    )


@pytest.mark.parametrize("rule", ["one-asset-relative", "asset-l1-relative"])
def test_every_parameter_of_a_detailed_table_is_believed_by_its_own_noise(rule):
    source, adjacency = detailed(), Adjacency(rule, family="detailed")
    noisy = perturb(
        source,
        epsilon=Fraction(1),
        adjacency=adjacency,
        bounds=Bounds(family="detailed"),
        ledger=None,
        sampler=DemoSampler(1),
        allocation=allocate(source.facts, adjacency),
    )
    belief = beliefs(noisy)
    assert belief.keys() == source.facts.parameters.keys()
    for name, own in belief.items():
        loss = noisy.guarantee.groups[name]
        np.testing.assert_array_equal(own.y, noisy.values[name])
        # bounds are far: the deviation is the noise's, but for the skew of logarithms
        size = own.mean if loss.relative else 1.0
        expected = loss.noise.deviation * loss.scale * size
        assert own.variance**0.5 == pytest.approx(expected, rel=0.25), name


# --- priors of a release's estimates --------------------------------------------------------------


@pytest.mark.parametrize("entries", [2, 6, 54])
def test_the_prior_of_a_sum_is_half_that_of_independent_items_and_half_log_uniform(entries):
    public = Range(1.0, 40.0)
    low, high = np.log(entries * public.lower), np.log(entries * public.upper)
    items = log_uniform(np.random.default_rng(1).random((200_000, entries)), public)
    s = np.linspace(low, high, 20_001)
    density = OfSum(entries=entries).density(s, low, high)
    below = np.cumsum(density) / density.sum()
    even = (s - low) / (high - low)
    sums = np.sort(np.log(items.sum(axis=1)))
    counted = np.searchsorted(sums, s) / len(sums)
    # a Gamma law of the same mean and variance: of two items it is not the very law
    assert np.abs(below - (even + counted) / 2).max() < (0.04 if entries == 2 else 0.015)


@pytest.mark.parametrize("entries", [2, 54, 3000])
@pytest.mark.parametrize("scale", [0.3, 30.0, np.inf])
def test_the_estimate_of_a_sum_is_what_a_fine_grid_gives(entries, scale):
    low, high = 1.0 * entries, 40.0 * entries
    s = np.linspace(np.log(low), np.log(high), 400_001)
    for y in (low, 7.3 * entries, 12.0 * entries, high):
        found = Posterior.of(y, scale, low, high, prior=OfSum(entries=entries))
        weight = OfSum(entries=entries).density(s, np.log(low), np.log(high))
        weight = weight * np.exp(-np.abs(np.exp(s) - y) / scale)
        assert found.estimate[0] == pytest.approx(weight @ np.exp(s) / weight.sum(), rel=2e-4)


def test_the_estimate_of_a_line_is_a_geometric_mean_with_a_prior_around_the_middle():
    """Oracle: SciPy's density of Student's law on a fine grid."""
    s = np.linspace(0, np.log(100), 400_001)
    for y, scale in ((1.0, 2.0), (8.0, 1.0), (100.0, 6.0)):
        weight = np.exp(-np.abs(np.exp(s) - y) / scale) * student.pdf((s - np.log(10)) / 0.6, 2)
        found = Posterior.of(y, scale, 1.0, 100.0, prior=AROUND_MIDDLE).estimate[0]
        assert found == pytest.approx(np.exp(weight @ s / weight.sum()), rel=1e-4)


def test_values_drawn_from_the_prior_of_lines_have_its_quantiles():
    share = np.linspace(0, 1, 7)
    found = around_middle(share, Range(1.0, 100.0))
    s = np.linspace(0, np.log(100), 400_001)
    below = np.cumsum(np.exp(-((s - np.log(10)) ** 2) / 2))
    assert np.log(found) == pytest.approx(np.interp(share * below[-1], below, s), abs=1e-4)
    assert found[[0, 3, -1]] == pytest.approx([1, 10, 100])
