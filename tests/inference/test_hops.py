"""Hops between explanations: eigenvalues and their slopes, what is left of records, and hops."""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np
import pytest

from gridveil.dynamics.engine.objective import one_blas_thread
from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import reduced_model
from gridveil.dynamics.simulate import eigenvalues as eigenvalues_of
from gridveil.dynamics.simulate import oscillating, simulate
from gridveil.dynamics.swing import SWING
from gridveil.foundation.progress import told_to
from gridveil.grid.parameters import Bounds
from gridveil.inference.alike import beliefs_alike
from gridveil.inference.fit import Observation, hops
from gridveil.inference.fit.coordinates import independent
from gridveil.inference.fit.hops import WORTH, Left, hopped
from gridveil.inference.fit.least_squares import minimise_all
from gridveil.inference.fit.members import Members
from gridveil.inference.fit.outcome import SearchEnd
from gridveil.inference.fit.poles import Poles, eigenvalue_slopes, eigenvalues
from gridveil.inference.fit.polish import polish
from gridveil.inference.fit.search import MOST_KEPT, SEARCHED, sampled
from gridveil.inference.fit.task import Task, WholeResiduals
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.provenance import Provenance
from gridveil.readers.cases import open_grid
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import SourceGrid
from gridveil.vault.truth import public_table

DT_S, SIGMA = 0.02, 1e-5


class Known:
    """A record of IEEE-30's first machine, what a release says of the grid, and the truth.

    apart : deviation of the logarithms of its values from those of the case.
    """

    def __init__(self, apart: float = 0.0) -> None:
        source, bounds, random = open_grid("ieee30"), Bounds(), np.random.default_rng(4)
        self.values = {
            name: np.clip(
                own * np.exp(apart * random.standard_normal(len(own))),
                bounds[name].least,
                bounds[name].upper,
            )
            for name, own in public_table(source).values.items()
        }
        source = SourceGrid.of(source.facts, **self.values)
        truth, event = reduced_model(source.facts, self.values), Event.uniform(0.2)
        seen = simulate(truth, event, horizon_s=30.0, dt_s=DT_S, buses=truth.machines[:1])
        noise = SIGMA * np.random.default_rng(1).standard_normal(seen.omega.shape)
        record = Observation(
            event, replace(seen, omega=seen.omega + noise), Provenance("simulated", "a test")
        )
        noisy = perturb(
            source,
            epsilon=Fraction(1),
            adjacency=Adjacency("one-per-group"),
            bounds=bounds,
            ledger=None,
            sampler=DemoSampler(1),
        )
        self.belief = beliefs_alike(noisy)
        self.prior = independent(self.belief)
        self.task = Task.of(source.facts, [record], bounds, dt_s=DT_S, scheme="exact")
        y = np.log(np.concatenate([self.values[name] for name in SWING]))
        self.y = np.clip(y, self.prior.lower, self.prior.upper)
        self.all = sampled(self.task, self.task.predictor.records.samples, MOST_KEPT)
        self.few = sampled(self.task, SEARCHED)

    def polished(self, y):
        """The explanation near y."""
        return polish(self.task, self.prior, y, self.all, SIGMA)[0]

    def drawn(self, count):
        """Networks that the release allows."""
        random = np.random.default_rng(5)
        each = [self.belief[name].sample(random, count) for name in SWING]
        return list(
            np.clip(np.log(np.concatenate(each, axis=1)), self.prior.lower, self.prior.upper)
        )

    @cache  # noqa: B019 - of one case
    def pushed_away(self):
        """An explanation with one mode elsewhere: the fastest that leads to another one."""
        best = self.polished(self.y)
        (values,) = eigenvalues(self.task, best.x[None])
        for number in np.argsort(-values.imag):
            targets = values.copy()
            targets[number] += 2.5j
            poles = Poles(self.task, targets[None], np.full((1, len(values)), 0.05))
            (pushed,) = minimise_all(poles, [self.prior], best.x[None], iterations=60)
            worse = self.polished(pushed.x)
            if 10.0 < worse.cost - best.cost < len(self.all.observed):
                return worse
        return best

    def left(self, y):
        """What is left of the record at y."""
        return Left.of(self.task, self.prior, y, self.all, SIGMA)


@cache
def known(apart=0.0):
    return Known(apart)


@pytest.fixture(autouse=True)
def _quickly():
    with one_blas_thread():
        yield


def test_eigenvalues_are_those_of_the_reduced_model():
    case = known()
    model = reduced_model(case.task.coordinates.facts, case.values)
    y = np.log(np.concatenate([case.values[name] for name in SWING]))
    (found,) = eigenvalues(case.task, y[None])
    expected = oscillating(eigenvalues_of(model))
    np.testing.assert_allclose(found[np.argsort(found.imag)], expected, rtol=1e-9)


def test_slopes_of_eigenvalues_are_those_of_finite_differences():
    case, step = known(), 1e-6
    random = np.random.default_rng(2)
    (values,), (slopes,) = eigenvalue_slopes(case.task, case.y[None])
    for _ in range(3):
        way = random.standard_normal(len(case.y))
        ahead, behind = eigenvalues(case.task, case.y + step * np.stack([way, -way]))
        order, there, back = (np.argsort(part.imag) for part in (values, ahead, behind))
        slope = (ahead[there] - behind[back]) / (2 * step)
        np.testing.assert_allclose((slopes @ way)[order], slope, rtol=1e-5, atol=1e-6)


def test_a_search_finds_a_network_with_given_eigenvalues():
    case = known()
    (targets,) = eigenvalues(case.task, case.y[None])
    start = case.y + 0.3 * np.random.default_rng(3).standard_normal(len(case.y))
    poles = Poles(case.task, targets[None], np.full((1, len(targets)), 0.01))
    (found,) = minimise_all(poles, [case.prior], start[None], iterations=60)
    (values,) = eigenvalues(case.task, found.x[None])
    nearest = np.abs(targets[:, None] - values).min(axis=1)
    assert nearest.max() < 0.02
    before = np.abs(targets[:, None] - eigenvalues(case.task, start[None])[0]).min(axis=1)
    assert before.max() > 0.2, "it was elsewhere"


def test_a_model_with_too_few_modes_is_no_place_to_go():
    case = known()
    (values,) = eigenvalues(case.task, case.y[None])
    targets = np.append(values, 9j)[None]
    poles = Poles(case.task, targets, np.ones(targets.shape))
    assert np.isinf(poles.at(case.y[None], np.array([0]))).all()
    assert not poles.slopes(case.y[None], np.array([0])).any()


def test_a_model_that_is_not_finite_has_no_modes():
    case = known()
    y = np.stack([case.y, np.full(len(case.y), np.nan)])
    with np.errstate(all="ignore"):
        fine, none = eigenvalues(case.task, y)
    assert len(fine)
    assert not len(none)


def test_a_hop_that_fails_leaves_what_was_known(monkeypatch):
    case = known()

    def fails(self, goals, width):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(hops._Hops, "ends", fails)
    monkeypatch.setattr(hops, "RARE", 0.9)  # something is always missing
    best = case.polished(case.y)
    (found,) = hopped(case.task, case.prior, [best], [], case.all, case.few, SIGMA)
    assert found.cost == pytest.approx(best.cost, abs=0.01)


def test_a_target_of_infinite_width_may_lie_anywhere():
    case = known()
    (values,) = eigenvalues(case.task, case.y[None])
    targets, widths = values.copy(), np.full(len(values), 0.01)
    targets[2], widths[2] = 0.0, np.inf
    poles = Poles(case.task, targets[None], widths[None])
    np.testing.assert_allclose(poles.at(case.y[None], np.array([0])), 0.0, atol=1e-9)


def test_what_a_mode_explains_is_what_least_squares_explain():
    case, value = known(), complex(-0.2, 9.0)
    # at any y, not only where a search ended: the cost of small changes of y and of the mode
    y = case.y + 0.01 * np.random.default_rng(6).standard_normal(len(case.y))
    residuals = WholeResiduals(case.task, case.all, case.task.sigma(case.all, SIGMA))
    r, J, left = residuals.at(y), residuals.slopes(y), case.left(y)
    wave = np.exp(left.time_s * value)
    precision, n = case.prior.precision, len(y)

    def least(A):
        """½ |r + A x|² + ½ (y + δ − μ)ᵀ Λ (y + δ − μ) with x = (δ, ·) at its minimum."""
        whole, gradient = A.T @ A, A.T @ r
        whole[:n, :n] += precision
        gradient[:n] += precision @ (y - case.prior.mean)
        x = -np.linalg.solve(whole, gradient)
        moved = y + x[:n] - case.prior.mean
        return 0.5 * np.sum((r + A @ x) ** 2) + 0.5 * moved @ precision @ moved

    gain = least(J) - least(np.column_stack([J, wave.real, wave.imag]))
    np.testing.assert_allclose(left.gains(np.array([value])), gain, rtol=1e-4)


def test_noise_alone_shows_no_mode_and_a_planted_one_is_found():
    left = known().left(known().y)
    random, alarms = np.random.default_rng(4), 0

    def of(r):
        return replace(left, r=r - left.known @ (left.known.T @ r)).modes(30.0)

    for _ in range(10):
        alarms += bool(of(random.standard_normal(len(left.r))))
    assert alarms <= 5, (
        "at one frequency noise does so once in 2500, and some hundreds are looked at"
    )
    value = complex(-0.3, 17.3)
    wave = 3.0 * np.real(np.exp(1j + left.time_s * value))
    (found, *_) = of(random.standard_normal(len(left.r)) + wave)
    assert abs(found.value - value) < 4 * found.width
    assert found.gain == pytest.approx(0.5 * np.sum(wave**2), rel=0.5)


def test_a_mode_that_was_pushed_away_is_found_again():
    case = known()
    best, worse = case.polished(case.y), case.pushed_away()
    assert worse.cost > best.cost + 10.0
    found = hopped(case.task, case.prior, [worse], case.drawn(4), case.all, case.few, SIGMA)
    assert found[0].cost < best.cost + WORTH
    assert [one.cost for one in found] == sorted(one.cost for one in found)


def test_another_explanation_is_found_by_shaking_one():
    """Where machines and lines differ much, there are two."""
    case = known(1.2)
    start = case.polished(case.y)
    told: list[tuple] = []
    with told_to(lambda *news: told.append(news)):
        found = hopped(case.task, case.prior, [start], case.drawn(8), case.all, case.few, SIGMA)
    assert len(found) > 1
    assert told == [(hops.TRYING, done, hops.TRIES) for done in range(len(told))]
    assert len(told) > 1
    scale = np.sqrt(case.prior.precision.diagonal())
    for one, other in combinations(found, 2):
        assert np.linalg.norm(scale * (one.x - other.x)) > hops.APART
    residuals = WholeResiduals(case.task, case.all, case.task.sigma(case.all, SIGMA))
    for one in found:
        r = residuals.at(one.x)
        assert one.cost == pytest.approx(0.5 * float(r @ r) + case.prior.cost(one.x))
        assert one.cost < start.cost + hops.AS_GOOD
    assert min(np.linalg.norm(scale * (one.x - start.x)) for one in found) < 0.1


def test_a_shaken_network_keeps_what_records_show_strongly():
    case = known()
    end = case.polished(case.y)
    drawn = [case.prior.mean + 0.5, case.prior.mean - 0.5]
    hop = hops._Hops(case.task, case.prior, drawn, case.all, case.few, SIGMA)
    values, explains = hop._modes(end)
    for goal, one in zip(hop._shaken(end), drawn, strict=True):
        assert (goal.targets == values).all()
        assert (np.isfinite(goal.widths) == (explains > hops.STRONG)).all()
        moved = end.x + hops.SHARE * (one - case.prior.mean)
        np.testing.assert_allclose(goal.start, np.clip(moved, case.prior.lower, case.prior.upper))


def test_members_go_to_the_explanation_that_suits_them():
    """A fit that ended at the worse of two explanations, and knows the better one."""
    case = known()
    best, worse = case.polished(case.y), case.pushed_away()
    scale = np.sqrt(case.prior.precision.diagonal())
    ended = SearchEnd(case.task, case.prior, worse, case.all, SIGMA, others=(best.x,))
    means = np.stack([case.prior.mean, case.prior.mean + 0.3 / scale])
    for member in Members(ended).members(means, np.random.default_rng(7)):
        apart = [np.linalg.norm(scale * (member - one.x)) for one in (best, worse)]
        assert apart[0] < apart[1]


def test_records_that_a_model_cannot_explain_are_not_hopped_for(monkeypatch):
    case = known()
    monkeypatch.setattr(hops, "RARE", 0.9)  # anything would do
    end = case.polished(case.y)
    hop = hops._Hops(case.task, case.prior, [], case.all, case.few, SIGMA)
    assert hop.missing(end)
    called = []
    monkeypatch.setattr(hops._Hops, "ends", lambda self, goals, width: called.append(goals) or [])
    hopped(case.task, case.prior, [end], [case.y], case.all, case.few, SIGMA)
    assert called
    called.clear()
    monkeypatch.setattr(hops, "NEARLY", 0.9 * end.cost / len(case.all.observed))
    hopped(case.task, case.prior, [end], [case.y], case.all, case.few, SIGMA)
    assert not called
