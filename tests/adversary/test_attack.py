"""Attacks that see a release only: what they win without noise, and how little with it."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from attacks import bundle_advantage, neighbours, on_star
from gridveil import Adjacency, Bounds, DemoSampler, open_grid, perturb, publish
from gridveil.adversary.attack.guess import best_guesses, bound, combined, noisy_values, within
from gridveil.adversary.attack.network import (
    invert,
    is_star,
    port_patterns,
    recover_star,
    recover_star_by_share,
)
from gridveil.adversary.attack.topology import EdgeGuess, equal_columns, guess_edges
from gridveil.assurance.audit import alphas, measure_advantage, perturbed
from gridveil.assurance.owner_report import redraws
from gridveil.assurance.owner_report.assess import true_pairs
from gridveil.assurance.owner_report.redraws import Redraws, epsilon_row
from gridveil.dynamics.kron import edge_weights, kron_reduce, laplacian
from gridveil.dynamics.kron.kernels import KronMap
from gridveil.foundation.errors import OptionError
from gridveil.grid.parameters import Range
from gridveil.inference.posterior import Posterior, beliefs, posterior_mean
from gridveil.inference.prior import AROUND_MIDDLE
from gridveil.paper.star import star_edges
from gridveil.privacy.allocation import ITEMS, topology
from gridveil.privacy.mechanisms import USUAL
from gridveil.publication.release import loaded_buses, neutral
from gridveil.vault.source import Private
from gridveil.vault.truth import true_model

ALPHA = alphas()

BOX = Bounds()["k"]


@pytest.fixture(scope="module")
def ieee30():
    return open_grid("ieee30")


def released(source, epsilon=1, seed=1, **options):
    settings = {"adjacency": Adjacency(), "bounds": Bounds(), "ledger": None, "allocation": ITEMS}
    return publish(
        source, epsilon=Fraction(epsilon), sampler=DemoSampler(seed), **(settings | options)
    )


# --- the star -------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaves", [3, 4, 7])
def test_a_star_comes_back_exactly_from_a_plain_reduction(leaves):
    k = np.random.default_rng(leaves).uniform(1, 50, leaves)
    L_red, K_ac = kron_reduce(laplacian(star_edges(leaves), k, leaves + 1), np.arange(leaves))
    np.testing.assert_allclose(recover_star(edge_weights(L_red), leaves), k, rtol=1e-9)
    np.testing.assert_allclose(recover_star_by_share(edge_weights(L_red), K_ac[:, 0]), k, rtol=1e-9)


def test_two_lines_in_series_need_the_share_of_their_middle():
    L_red, K_ac = kron_reduce(laplacian(star_edges(2), np.array([2.0, 3.0]), 3), np.arange(2))
    with pytest.raises(OptionError, match="K_ac"):
        recover_star(edge_weights(L_red), 2)
    np.testing.assert_allclose(
        recover_star_by_share(edge_weights(L_red), K_ac[:, 0]), [2, 3], rtol=1e-9
    )


def test_a_star_is_told_from_other_grids(ieee30):
    assert is_star(open_grid("star5").facts)
    assert not is_star(ieee30.facts)


# --- known topology -------------------------------------------------------------------------------


def test_the_jacobian_is_the_one_of_finite_differences(ieee30):
    facts, k = ieee30.facts, Private.open(ieee30.values["k"])
    network = KronMap(facts, port_patterns(facts, loaded_buses(facts)))
    _, of_weights, of_shares = network.slopes(k)
    for line in (0, 17, 40):
        step = np.zeros(len(k))
        step[line] = 1e-6 * k[line]
        up, down = network(k + step), network(k - step)
        np.testing.assert_allclose(
            (up.weights - down.weights) / (2 * step[line]), of_weights[:, line], atol=1e-8
        )
        np.testing.assert_allclose(
            (up.carried - down.carried) / (2 * step[line]), of_shares[..., line], atol=1e-8
        )


@pytest.mark.parametrize(
    ("knows", "rank", "fixed"),
    [("L_red", 14, 3), ("loaded", 32, 22), ("all", 35, 31)],
    ids=["L_red", "bundle", "all of K_ac"],
)
def test_known_topology_gives_31_of_41_lines_of_a_plain_reduction(ieee30, knows, rank, fixed):
    facts, k, full = ieee30.facts, Private.open(ieee30.values["k"]), true_model(ieee30)
    model = full if knows == "all" else neutral(full, facts)
    patterns = {
        "L_red": None,
        "loaded": port_patterns(facts, loaded_buses(facts)),
        "all": np.eye(len(facts.interior)),
    }
    found = invert(model, facts, BOX, patterns[knows])
    assert (found.rank, found.fixed.sum()) == (rank, fixed)
    assert found.misfit < 1e-9
    np.testing.assert_allclose(found.weights[found.fixed], k[found.fixed], rtol=1e-6)
    assert (np.abs(found.weights / k - 1) <= 1e-3).sum() >= fixed


def test_an_inversion_of_a_release_gives_the_noisy_values_and_no_more(ieee30):
    facts, made = ieee30.facts, released(ieee30, epsilon=Fraction(1, 2))
    settings = {"adjacency": Adjacency(), "bounds": Bounds(), "ledger": None}
    noisy = perturb(ieee30, epsilon=Fraction(1, 2), **settings, sampler=DemoSampler(1))
    found = invert(made.model, facts, BOX, port_patterns(facts, loaded_buses(facts)))
    np.testing.assert_allclose(
        found.weights[found.fixed], posterior_mean(noisy).values["k"][found.fixed], rtol=1e-6
    )
    y = noisy_values(found.weights[found.fixed], made.guarantee.groups["k"], BOX, AROUND_MIDDLE)
    np.testing.assert_allclose(y, noisy.values["k"][found.fixed], rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(2)])
def test_a_noisy_weight_lies_within_alpha_as_often_as_epsilon_says(ieee30, epsilon):
    k, hits, best = Private.open(ieee30.values["k"]), [], []
    # of the others, clipping moves some to within α
    free = (k - 1 > BOX.lower) & (k + 1 < BOX.upper)
    for seed in range(200):
        settings = {"adjacency": Adjacency(), "bounds": Bounds(), "ledger": None}
        noisy = perturb(ieee30, epsilon=epsilon, **settings, sampler=DemoSampler(seed))
        loss = noisy.guarantee.groups["k"]
        hits.append(within(noisy.values["k"], k, loss)[free])
        if seed < 20:
            best.append(within(best_guesses(noisy.values["k"], loss, BOX), k, loss))
    expected, count = -np.expm1(-float(epsilon)), np.size(hits)
    assert abs(np.mean(hits) - expected) < 3.29 * np.sqrt(expected * (1 - expected) / count)
    assert np.mean(best) < expected + 0.1  # a prior helps a little, and no more


def test_a_line_that_nothing_fixes_does_not_hide_the_noisy_values_of_others(ieee30, monkeypatch):
    """An inversion may take it beyond the bounds, where no posterior mean lies."""
    monkeypatch.setattr(redraws, "DRAWS", 5)
    facts, invert_one = ieee30.facts, Redraws.inverted
    k, m = Private.open(ieee30.values["k"]), Private.open(ieee30.values["m"])
    again = Redraws(
        ieee30, released(ieee30, Fraction(1, 4)), port_patterns(facts, loaded_buses(facts)), seed=1
    )
    before = epsilon_row(again, Fraction(1), k, m, print)
    assert before.noisy is not None

    def beyond(self, made):
        found = invert_one(self, made)
        return replace(found, weights=np.where(found.fixed, found.weights, 2 * BOX.upper))

    monkeypatch.setattr(Redraws, "inverted", beyond)
    assert epsilon_row(again, Fraction(1), k, m, print).noisy == before.noisy


def test_the_error_of_the_best_attack_is_its_own(ieee30, monkeypatch):
    """Not that of another guess: with the windows of ± α best, their error is shown."""
    monkeypatch.setattr(redraws, "DRAWS", 1)
    k, m = Private.open(ieee30.values["k"]), Private.open(ieee30.values["m"])
    again = Redraws(
        ieee30, released(ieee30), port_patterns(ieee30.facts, loaded_buses(ieee30.facts)), seed=1
    )
    monkeypatch.setattr(redraws, "line_guesses", lambda *_: [5 * k, k + 3, k + 0.5])
    row = epsilon_row(again, Fraction(1), k, m, print)
    assert (row.best, row.error_k) == (1.0, pytest.approx(np.median(0.5 / k)))


# --- unknown topology -----------------------------------------------------------------------------


def test_edges_are_guessed_far_better_than_by_lot(ieee30):
    truth, edges = true_pairs(ieee30.facts, None)
    for model in (neutral(true_model(ieee30), ieee30.facts), released(ieee30).model):
        guess = guess_edges(model, BOX)
        assert guess.f1(truth, edges) > 0.45 > 4 * guess.blind_f1(truth, edges)


def test_equal_columns_name_the_buses_behind_a_cut_vertex(ieee30):
    made = released(ieee30)
    names = [ieee30.facts.buses[bus] for bus in loaded_buses(ieee30.facts)]
    assert [[names[column] for column in group] for group in equal_columns(made.model.K_ac)] == [
        ["29", "30"]
    ]


def test_topology_mode_leaves_nothing_but_lots(ieee30):
    made = released(ieee30, allocation=topology(shares={"m": Fraction(1, 2), "d": Fraction(1, 2)}))
    guess = guess_edges(made.model, BOX, ports=len(made.model.m))
    truth = {pair for pair in true_pairs(ieee30.facts, None)[0] if max(pair) < 6}
    assert truth
    assert guess.f1(truth) == pytest.approx(guess.blind_f1(truth), abs=1e-12)


def test_ties_count_by_their_expectation():
    pairs = np.array([[0, 1], [0, 2], [1, 2]])
    guess = EdgeGuess(3, pairs, np.array([2.0, 1.0, 1.0 + 1e-12]), 2)
    assert guess.hits({(0, 1), (1, 2)}) == pytest.approx(1.5)
    assert guess.blind_f1({(0, 1), (1, 2)}) == pytest.approx(2 * (4 / 3) / 4)


# --- several releases, and all but one ------------------------------------------------------------


def test_one_release_alone_combines_to_its_posterior_mean(ieee30):
    noisy = perturb(
        ieee30,
        epsilon=Fraction(1),
        adjacency=Adjacency(),
        bounds=Bounds(),
        ledger=None,
        sampler=DemoSampler(4),
    )
    found = combined(noisy.values["k"][None], noisy.guarantee.groups["k"], BOX)
    np.testing.assert_allclose(found, beliefs(noisy)["k"].mean, rtol=2e-3)


def test_averaging_wins_with_the_root_of_the_number_of_releases():
    random, truth = np.random.default_rng(3), np.full(200, 20.0)
    loss = released(open_grid("star5")).guarantee.groups["k"]
    errors = {}
    for count in (4, 100):
        y = np.clip(truth + random.laplace(0, loss.scale, (count, 200)), BOX.lower, BOX.upper)
        errors[count] = np.sqrt(np.mean((combined(y, loss, BOX) - truth) ** 2))
    # of the median of Laplace noise: b / √R
    assert errors[100] == pytest.approx(loss.scale / 10, rel=0.25)
    assert 3.5 < errors[4] / errors[100] < 9


@pytest.mark.parametrize(
    ("losses", "exact"),
    [
        ((0.5,), 0.2212),
        ((1,), 0.3935),
        ((2,), 0.6321),
        ((0.5, 0.5), 0.2418),
        ((1, 1), 0.4482),
        ((2 / 3,) * 3, 0.4175),
    ],
)
def test_the_exact_advantage_is_the_one_of_a_simulation(losses, exact):
    assert USUAL.advantage(losses) == pytest.approx(exact, abs=5e-5)
    size = np.array(losses)
    ratio = np.clip(
        size + 2 * np.random.default_rng(1).laplace(size=(400_000, len(size))), -size, size
    ).sum(axis=1)
    assert np.maximum(0, -np.expm1(-ratio)).mean() == pytest.approx(exact, abs=2e-3)
    assert USUAL.advantage(losses) <= bound(sum(losses))


class TooSmall(DemoSampler):
    """Noise of 0.8 times its scale."""

    def draw(self, values, scale, noise):
        return super().draw(values, 0.8 * scale, noise)


def is_exact(row):
    """Whether a measured advantage is the exact one within five standard deviations: secrets are
    fresh in every run.
    """
    return abs(row.measured - row.exact) <= 5 * np.sqrt((1 - row.exact**2) / row.draws)


@pytest.mark.parametrize("rule", ["one-item", "one-asset", "one-per-group", "one-asset-relative"])
def test_the_measured_advantage_is_the_exact_one_and_too_little_noise_is_caught(rule):
    adjacency = Adjacency(rule, alphas())
    for sampler, honest in ((DemoSampler(8), True), (TooSmall(8), False)):
        found = measure_advantage(
            adjacency,
            Fraction(1),
            50_000,
            draw=perturbed(adjacency, Fraction(1), sampler),
            workers=1,
        )
        assert all(row.draws >= 50_000 and is_exact(row) == honest for row in found)
        assert all(row.low < row.measured < row.high and row.bound == np.tanh(0.5) for row in found)
        assert all(row.exact < row.bound for row in found)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["one-item", "one-asset", "one-per-group"])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)])
def test_a_million_draws_of_each_adjacency(rule, epsilon):
    adjacency = Adjacency(rule, alphas())
    for sampler, honest in ((DemoSampler(8), True), (TooSmall(9), False)):
        draw = perturbed(adjacency, epsilon, sampler)
        for row in measure_advantage(adjacency, epsilon, 1_000_000, draw=draw, workers=1):
            assert row.draws >= 1_000_000
            assert is_exact(row) == honest
            assert honest or not row.passed


@pytest.mark.slow
def test_the_advantage_against_secure_noise_is_the_exact_one():
    assert all(
        is_exact(row)
        for row in measure_advantage(Adjacency("one-asset", alphas()), Fraction(1), 100_000)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fits", "draws"), [(False, 1000), (True, 100)], ids=["no trajectory", "x held fixed"]
)
@pytest.mark.parametrize("group", ["k", "md"])
def test_no_bundle_gives_more_than_epsilon_allows(fits, draws, group):
    source, make = on_star(Fraction(1), fits)
    found, reach = bundle_advantage(neighbours(source, group), make, draws)
    assert found - reach <= bound(1.0)


@pytest.mark.parametrize(
    "box", [BOX, Range(0.01, 100), Range(0, 100)], ids=["default", "wide", "from 0"]
)
def test_a_released_mean_gives_its_noisy_value_back(box):
    loss = released(open_grid("star5")).guarantee.groups["k"]
    y = np.array([max(0.05, 1.5 * box.least), 3.0, 20.0, 60.0, 95.0])
    mean = Posterior.of(y, loss.scale, box.lower, box.upper).mean
    np.testing.assert_allclose(noisy_values(mean, loss, box), y, rtol=1e-5)
    np.testing.assert_allclose(combined(y[None], loss, box), mean, rtol=5e-3)
