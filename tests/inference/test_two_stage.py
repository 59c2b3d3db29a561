"""The two-stage fit: its derivatives against plain loops and differences, its result against scipy
and against the truth.
"""

import sys
import time
from dataclasses import replace
from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import least_squares, minimize

from fidelity_grids import CASES, DT_S, ORIGIN, PUBLIC
from gridveil.dynamics.engine import SampledRecord
from gridveil.dynamics.engine.records import SampledRecords
from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import edge_weights, kron_reduce, laplacian, reduce, reduced_model
from gridveil.dynamics.kron.kernels import KronMap
from gridveil.dynamics.simulate import simulate
from gridveil.dynamics.swing import DrivenSwingFamily
from gridveil.foundation.errors import OptionError, UnstableStep
from gridveil.foundation.progress import told_to
from gridveil.grid.parameters import Bounds
from gridveil.inference.fit import (
    FitSettings,
    Observation,
    Unknown,
    check_records,
    fit,
    problem,
)
from gridveil.inference.fit.coordinates import Coordinates, independent, linked, push
from gridveil.inference.fit.direct import DirectResiduals
from gridveil.inference.fit.least_squares import Gaussian, minimise, minimise_all
from gridveil.inference.fit.polish import polish, polish_all
from gridveil.inference.fit.problem import as_records
from gridveil.inference.fit.sampling import Sampling
from gridveil.inference.fit.search import explore, windows
from gridveil.inference.fit.sensitivity import Predictor, _powers
from gridveil.inference.fit.task import Task, WholeResiduals
from gridveil.inference.fit.two_stage import TRIED_LONGER, TWO_STAGE_UP_TO, two_stage
from gridveil.inference.posterior import Posterior, beliefs, no_release
from gridveil.paper.experiment import Experiment, named_transients, random_transients
from gridveil.planning.profiles import PROFILES
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.provenance import Provenance
from gridveil.readers.cases import open_grid
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import SourceGrid
from gridveil.workflow.publish import publish
from helpers import (
    few_examples,
    grids,
    make_grid,
    plain_swing,
    random_grid,
    star,
    transition,
    transition_slope,
)

HALF = Fraction(1, 2)
EVENT = Event.uniform(0.2)
PAPER = PROFILES["paper"]
MEASURED = Provenance(
    "measured",
    "Wide-area record",
    "2016-01-06",
    "https://example.org/record",
    "the operator's report",
)


def observe(
    model, event=EVENT, *, horizon_s=30.0, dt_s=0.05, scheme="exact", buses=None, noise=0.0, seed=0
):
    found = simulate(model, event, horizon_s=horizon_s, dt_s=dt_s, scheme=scheme, buses=buses)
    omega = found.omega + noise * np.random.default_rng(seed).standard_normal(found.omega.shape)
    return Observation(event, replace(found, omega=omega), MEASURED)


def believe(grid, spread=0.2, seed=0):
    """What a release with noise of a share `spread` of each value would say, in a box that holds
    all values.
    """
    random = np.random.default_rng(seed)
    found = {}
    for name in ("k", "m", "d"):
        values = getattr(grid, name)
        scale = spread * values
        found[name] = Posterior.of(
            values + random.laplace(0, scale), scale, values.min() / 5, values.max() * 5
        )
    return found


# --- derivatives ----------------------------------------------------------------------------------


@few_examples
@given(grids())
def test_the_network_is_the_kron_reduction(grid):
    facts = grid.facts
    patterns = np.random.default_rng(0).random((len(facts.interior), 2))
    L_red, K_ac = kron_reduce(laplacian(facts.edges, grid.k, len(facts.buses)), facts.machines)
    K_ac = K_ac[:, np.argsort(np.argsort(facts.interior))]
    network = KronMap(facts, patterns)
    for found in (network(grid.k), network.slopes(grid.k)[0]):
        assert np.allclose(found.weights, edge_weights(L_red), atol=1e-9 * grid.k.max())
        assert np.allclose(found.carried, K_ac @ patterns)
    batch = network(np.stack([grid.k, 2 * grid.k]))
    assert np.allclose(batch.weights[1], 2 * batch.weights[0])


def differences(function, at, step=1e-6):
    columns = [
        (function(at + step * unit) - function(at - step * unit)) / (2 * step)
        for unit in np.eye(len(at))
    ]
    return np.stack(columns, axis=-1)


def damped(seed=4):
    """A random grid of 12 buses and 4 machines, with damping at interior loads."""
    grid = random_grid(12, 4, 8, seed)
    return grid.with_facts(load_damping=0.3 * grid.facts.loads)


def coordinates(grid, event=EVENT, buses=("1", "2", "3", "4", "5")):
    facts, ports = grid.facts, grid.reduced
    drive = np.zeros((len(facts.buses), len(event.steps)))
    drive[np.concatenate([facts.machines, facts.interior])] = np.stack(
        [step.loads(ports) for step in event.steps], axis=1
    )
    places = [ports.ports.index(bus) for bus in buses]
    g = len(facts.machines)
    sensed = np.array([(h, place - g) for h, place in enumerate(places) if place >= g]).reshape(
        -1, 2
    )
    kept = np.array([(h, place) for h, place in enumerate(places) if place < g]).reshape(-1, 2)
    return Coordinates(facts, drive, sensed, kept, linked(facts))


def test_the_derivatives_of_the_coordinates_are_those_of_differences():
    grid = damped()
    where = coordinates(grid, EVENT.then(Event.load({"3": 0.4}, at_s=1.0)))
    y = np.log(np.concatenate([grid.k, grid.m, grid.d]))
    x, slopes = where.slopes(y)
    assert np.allclose(x, where.of_network_and_machines(y))
    assert slopes == pytest.approx(differences(where.of_network_and_machines, y), abs=1e-7)
    assert where.model_slopes(x) == pytest.approx(differences(where.values, x), rel=1e-7, abs=1e-7)
    two = np.stack([y, y + 0.1])
    values, chains = where.values_of(two), where.value_slopes(two)
    for number, one in enumerate(two):
        x, slopes = where.slopes(one)
        assert values[number] == pytest.approx(where.values(x), rel=1e-12)
        assert chains[number] == pytest.approx(where.model_slopes(x) @ slopes, abs=1e-10)


def test_the_coordinates_stand_for_the_reduced_model_and_keep_the_sum_of_loads():
    grid = damped()
    where = coordinates(grid)
    theta, sense = where.model(
        where.of_network_and_machines(np.log(np.concatenate([grid.k, grid.m, grid.d])))
    )
    model = grid.reduced
    p = len(model.theta)
    load = EVENT.steps[0].loads(model)
    assert theta[:p] == pytest.approx(model.theta, rel=1e-10)
    assert theta[p:] == pytest.approx(model.to_machines(load), rel=1e-10)
    assert sense == pytest.approx(
        model.shares(np.array([model.ports.index(bus) for bus in "12345"])), abs=1e-10
    )
    moved, shares = where.model(np.random.default_rng(1).standard_normal(where.size))
    assert moved[p:].sum() == pytest.approx(load.sum())
    assert shares.sum(axis=1) == pytest.approx(np.ones(5))


@pytest.mark.parametrize("scheme", ["exact", "trapezoidal", "euler"])
@pytest.mark.parametrize("thin", [1, 3])
def test_the_sensitivities_are_those_of_a_time_loop(scheme, thin):
    """z_{n+1} = E z_n beside s_{n+1} = E s_n + E' z_n, for two records, one of two steps, with
    gaps.
    """
    grid, dt = star(), 0.02
    model = grid.reduced
    g, e, rng = 4, 6, np.random.default_rng(2)
    sense = np.array([[1.0, 0, 0, 0], [0.1, 0.2, 0.3, 0.4]])
    first, second = rng.random((40, 2)), rng.random((31, 2))
    first[rng.random(first.shape) < 0.3] = np.nan
    records = [
        SampledRecord(((0, 0),), first, np.full(first.shape, dt)),
        SampledRecord(((6, 1), (12, 0)), second, np.full(second.shape, dt)),
    ]
    family = DrivenSwingFamily(
        model.edges,
        inputs=2,
        governor_rate=model.governor_rate,
        droop_gain=model.droop_gain,
        omega_b=model.omega_b,
        sense=np.eye(g),
        bounds=Bounds(),
    )
    u = rng.random((2, g))
    theta = np.concatenate([model.theta, u.ravel()])
    predictor = Predictor(family, SampledRecords.of(records), dt_s=dt, scheme=scheme)
    sampling = predictor.sampling(thin)
    moving = np.arange(len(theta))
    values = predictor.values(theta, sense, sampling)
    slopes = predictor.slopes(theta, sense, sampling, moving, np.array([1]))

    def at(whole):  # entry by entry, with u in the drive
        return plain_swing(model, whole[e + 2 * g :].reshape(2, g).T, np.eye(g))(
            whole[: e + 2 * g]
        ).F

    def plain(whole):
        F = at(whole.real).astype(complex)
        for entry in np.flatnonzero(whole.imag):
            moved = whole.real.astype(complex)
            moved[entry] += 1j * whole.imag[entry]
            F += 1j * (at_complex(moved)).imag
        return F

    def at_complex(whole):
        F = plain_swing(model, np.zeros((g, 2)), np.eye(g))(whole[: e + 2 * g]).F.astype(complex)
        F[:g, 3 * g :] = -(whole[e + 2 * g :].reshape(2, g).T) / whole[e : e + g, None]
        return F

    F = plain(theta.astype(complex)).real
    E = transition(F, dt, scheme)
    dE = [
        transition_slope(F, at_complex(theta + 1e-30j * unit).imag / 1e-30, dt, scheme)
        for unit in np.eye(len(theta))
    ]
    expected, expected_slopes, row = [], [], 0
    for record in records:
        z, s = np.zeros(len(F)), np.zeros((len(theta), len(F)))
        for n, seen in enumerate(record.observed):
            for sample, column in record.steps:
                z[3 * g + column] += sample == n
            if (n - record.steps[0][0]) % thin == 0:
                for output in np.flatnonzero(np.isfinite(seen)):
                    expected.append(sense[output] @ z[:g])
                    share = z[:g] if output == 1 else np.zeros(g)
                    expected_slopes.append(np.concatenate([s[:, :g] @ sense[output], share]))
                    assert sampling.observed[row] == seen[output]
                    row += 1
            z, s = E @ z, s @ E.T + np.array([one @ z for one in dE])
    assert values == pytest.approx(np.array(expected), abs=1e-12)
    assert slopes == pytest.approx(np.array(expected_slopes), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("grid", [star(), damped()], ids=["star", "twelve buses"])
def test_every_parameter_moves_the_model_along_one_direction(grid):
    """∂F/∂θ_p = [left_p; 0] right_pᵀ, against a complex step."""
    model = grid.reduced
    family = driven(model)
    theta = np.concatenate([model.theta, np.random.default_rng(0).random(2 * len(model.m))])
    moving = np.arange(len(theta))[::2]
    left, right = family.directions(theta, moving)
    for number, entry in enumerate(moving):
        nudged = theta.astype(complex)
        nudged[entry] += 1e-30j
        F = np.zeros((right.shape[1], right.shape[1]))
        F[: left.shape[1]] = np.outer(left[number], right[number])
        assert pytest.approx(family.lti(nudged).F.imag / 1e-30, rel=1e-12, abs=1e-12) == F


def driven(model, inputs=2):
    return DrivenSwingFamily(
        model.edges,
        inputs=inputs,
        governor_rate=model.governor_rate,
        droop_gain=model.droop_gain,
        omega_b=model.omega_b,
        sense=np.eye(len(model.m)),
        bounds=Bounds(),
    )


def meeting(gap=0.0):
    """Machines alike and without governors, whose modes coincide; one machine whose two modes meet,
    or nearly.
    """
    alike = make_grid(
        [(i, 4) for i in range(4)], [8.0] * 4, range(4), m=8, d=3, rate=2, gain=0, loads=[0.1] * 5
    )
    # One machine: m ω̇ = p − d ω, ṗ = −T (p + G ω) has a double eigenvalue where (d/m − T)² = 4 T G
    # / m.
    m, rate, gain = 8.0, 2.0, 4.0
    d = m * (rate + 2 * np.sqrt(rate * gain / m)) + gap
    double = make_grid([(0, 1)], [5.0], [0], m=m, d=d, rate=rate, gain=gain, loads=[0.1, 0.2])
    return {"alike": alike, "double": double}


@pytest.mark.parametrize(
    ("name", "gap", "accuracy"),
    [("alike", 0.0, 1e-7), ("double", 0.0, 1e-3), ("double", 1e-9, 1e-3), ("double", 1e-5, 1e-5)],
)
@pytest.mark.parametrize("scheme", ["exact", "euler"])
def test_modes_that_meet_do_not_spoil_the_sensitivities(name, gap, accuracy, scheme):
    model = meeting(gap)[name].reduced
    g = len(model.m)
    observed = np.random.default_rng(0).random((200, g))
    records = SampledRecords.of([SampledRecord(((0, 0),), observed, np.ones_like(observed))])
    predictor = Predictor(driven(model, inputs=1), records, dt_s=0.05, scheme=scheme)
    sampling = predictor.sampling()
    theta = np.concatenate([model.theta, np.linspace(0.1, 0.3, g)])
    slopes = predictor.slopes(
        theta, np.eye(g), sampling, np.arange(len(theta)), np.array([], dtype=int)
    )
    expected = differences(lambda at: predictor.values(at, np.eye(g), sampling), theta, 1e-5)
    assert slopes == pytest.approx(expected, abs=accuracy * np.abs(expected).max())


def test_a_window_ends_so_many_samples_behind_the_event():
    one = np.random.default_rng(0).random((50, 2))
    one[7] = np.nan
    records = SampledRecords.of(
        [
            SampledRecord(((5, 0),), one, np.ones_like(one)),
            SampledRecord(((20, 1), (30, 1)), one, np.ones_like(one)),
        ]
    )
    whole, part = Sampling.of(records), Sampling.of(records, until=10)
    assert [len(at) for at in whole.at] == [49, 49]
    assert [(at[0], at[-1]) for at in part.at] == [(0, 15), (0, 30)]
    assert part.count == 11 and len(part.observed) == len(part.weights) == 2 * (15 + 30)
    assert [len(at) for at in Sampling.of(records, thin=5, until=10).at] == [4, 7]


def test_the_slopes_by_lines_are_those_of_differences():
    grid = damped()
    observed = [observe(grid.reduced, horizon_s=4.0, buses=["1", "2", "9"])]
    task = Task.of(grid.facts, observed, Bounds(), dt_s=0.05, scheme="exact")
    sampling = task.predictor.sampling()
    residuals = DirectResiduals(task, sampling, task.sigma(sampling, 1e-3))
    y = np.log(np.concatenate([grid.k, grid.m, grid.d])) + 0.1
    expected = differences(residuals.at, y, 1e-5)
    assert residuals.slopes(y) == pytest.approx(expected, abs=1e-6 * np.abs(expected).max())
    by_x = WholeResiduals(task, sampling, residuals.sigma)
    assert by_x.at(y) == pytest.approx(residuals.at(y), abs=1e-9 * np.abs(residuals.at(y)).max())
    assert by_x.slopes(y) == pytest.approx(residuals.slopes(y), abs=1e-9 * np.abs(expected).max())


# --- the search -----------------------------------------------------------------------------------


class Curved:
    """Residuals that bend: Rosenbrock's valley, and a sum."""

    def at(self, x):
        return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0], 0.3 * (x[0] + x[1] + x[2])])

    def slopes(self, x):
        return np.array([[-20 * x[0], 10, 0], [-1, 0, 0], [0.3, 0.3, 0.3]])


@pytest.mark.parametrize("upper", [np.inf, 0.6])
def test_the_search_finds_what_scipy_finds(upper):
    mean, precision = np.array([0.2, 2.0, -1.0]), np.diag([0.5, 0.1, 2.0])
    prior = Gaussian(mean, precision, np.full(3, -np.inf), np.full(3, upper))
    found = minimise(
        Curved(), prior, np.array([-1.2, 0.5, 0.0]), weight=2.0, iterations=200, tolerance=1e-12
    )
    root = np.sqrt(np.diag(precision))
    expected = least_squares(
        lambda x: np.concatenate([np.sqrt(2) * Curved().at(x), root * (x - mean)]),
        np.array([-1.2, 0.5, 0.0]),
        bounds=(-np.inf, upper),
        xtol=1e-14,
        ftol=1e-14,
        gtol=1e-14,
    )
    assert found.converged
    assert found.cost == pytest.approx(expected.cost, rel=1e-8)
    assert found.x == pytest.approx(expected.x, abs=1e-4)


class ManyCurved:
    """`Curved` of several searches, each with a factor of its own; and of one of them."""

    factors = np.array([1.0, 0.5, 2.0, 0.0])

    def __init__(self, only=None):
        self.only = only

    def at(self, x, which=None):
        if which is None:
            return self.factors[self.only] * Curved().at(x)
        return np.stack([ManyCurved(number).at(own) for number, own in zip(which, x, strict=True)])

    def slopes(self, x, which=None):
        if which is None:
            return self.factors[self.only] * Curved().slopes(x)
        each = zip(which, x, strict=True)
        return np.stack([ManyCurved(number).slopes(own) for number, own in each])


@pytest.mark.parametrize("common", [0.0, 0.2])
def test_searches_in_step_end_where_each_ends_alone_and_where_scipy_ends(common):
    random, upper = np.random.default_rng(5), np.array([0.6, np.inf, 3.0])
    precision = np.diag([0.5, 0.1, 2.0]) + common
    priors = [
        Gaussian(mean, (1 + number) * precision, np.full(3, -np.inf), upper)
        for number, mean in enumerate(random.normal(0, 1, (4, 3)))
    ]
    starts = random.normal(0, 1.5, (4, 3))
    settings = {"weight": 2.0, "iterations": 200, "tolerance": 1e-12}
    together = minimise_all(ManyCurved(), priors, starts, **settings)
    assert len({one.steps for one in together}) > 1  # each has an end of its own
    for number, (prior, start, found) in enumerate(zip(priors, starts, together, strict=True)):
        one, root = ManyCurved(number), np.linalg.cholesky(prior.precision).T
        alone = minimise(one, prior, start, **settings)
        assert (found.steps, found.converged) == (alone.steps, True)
        assert found.x == pytest.approx(alone.x, abs=1e-12)
        expected = least_squares(
            lambda x, one=one, root=root, prior=prior: np.concatenate(
                [np.sqrt(2) * one.at(x), root @ (x - prior.mean)]
            ),
            found.x - 1e-3,
            bounds=(-np.inf, upper),
            xtol=1e-14,
            ftol=1e-14,
            gtol=1e-14,
        )
        assert found.cost == pytest.approx(expected.cost, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("dark", [False, True])
def test_a_linearisation_has_the_products_of_the_slopes_of_every_sample(dark):
    grid, random = damped(), np.random.default_rng(8)
    buses = ["1", "2", "9"]
    late = Event.load({"3": 0.4}, at_s=0.7)
    observed = [
        observe(grid.reduced, horizon_s=4.0, buses=buses),
        observe(grid.reduced, late, horizon_s=3.0, buses=buses),
    ]
    task = Task.of(grid.facts, observed, Bounds(), dt_s=0.05, scheme="exact")
    x = task.coordinates.of_network_and_machines(np.log(np.concatenate([grid.k, grid.m, grid.d])))
    for thin in (1, 3):
        sampling = task.predictor.sampling(thin)
        if dark:  # the way of records with gaps
            seen = tuple(np.array(one) for one in sampling.seen)
            seen[0][2, 1] = False
            keep = np.concatenate([one.ravel() for one in seen])
            sampling = replace(sampling, seen=seen, observed=sampling.observed[keep])
        sigma = task.sigma(sampling, np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
        r = random.standard_normal(len(sampling.observed))
        J = np.concatenate([task.slopes(x, sampling) / sigma[:, None], r[:, None]], axis=1)
        R = task.linearised(x, r, sampling, sigma)
        assert R.shape == (J.shape[1], J.shape[1])
        scale = np.linalg.norm(J, axis=0)
        assert R.T @ R / scale / scale[:, None] == pytest.approx(
            J.T @ J / scale / scale[:, None], abs=1e-9
        )


def test_polishes_in_step_end_where_each_ends_alone():
    grid = damped()
    observed = [observe(grid.reduced, horizon_s=4.0, buses=["1", "2", "9"])]
    task = Task.of(grid.facts, observed, Bounds(), dt_s=0.05, scheme="exact")
    sampling, random = task.predictor.sampling(), np.random.default_rng(3)
    prior = independent(believe(grid, 0.3))
    priors = [replace(prior, mean=prior.mean + shift) for shift in (0.0, 0.1, -0.1)]
    starts = [own.mean + 0.2 * random.standard_normal(len(own.mean)) for own in priors]
    noise = random.standard_normal((3, len(sampling.observed)))
    together = polish_all(task, priors, starts, sampling, 1e-4, noise=noise)
    for own, start, fresh, (found, history) in zip(priors, starts, noise, together, strict=True):
        changed = replace(sampling, observed=sampling.observed - 1e-4 * fresh)
        alone, expected = polish(task, own, start, changed, 1e-4)
        assert history == pytest.approx(expected, rel=1e-6)
        assert found.x == pytest.approx(alone.x, abs=1e-6)
        assert found.cost == pytest.approx(alone.cost, abs=1e-6)
        assert found.converged
        # few rows that stand for all: residuals and slopes have the products of the records' own
        records = DirectResiduals(task, changed, np.full(len(fresh), 1e-4))
        r, J = records.at(found.x), records.slopes(found.x)
        assert found.residuals @ found.residuals == pytest.approx(r @ r, rel=1e-9)
        assert found.slopes.T @ found.residuals == pytest.approx(J.T @ r, rel=1e-6, abs=1e-6)
        assert found.slopes.T @ found.slopes == pytest.approx(J.T @ J, rel=1e-8, abs=1e-6)


def test_records_of_one_place_are_explained_from_every_draw_if_their_first_period_comes_first():
    grid, sigma, count = small(), 1e-5, 12
    belief = believe(grid, 0.5)
    observed = [observe(grid.reduced, buses=["2"], noise=sigma, horizon_s=20.0)]
    task = Task.of(grid.facts, observed, Bounds(), dt_s=0.05, scheme="exact")
    prior, random = independent(belief), np.random.default_rng(1)
    drawn = np.concatenate([belief[name].sample(random, count) for name in "kmd"], axis=1)
    starts = list(np.clip(np.log(drawn), prior.lower, prior.upper))
    own = [replace(prior, mean=start) for start in starts]
    found = explore(task, own, starts, sigma, windows(task, grid.reduced))
    costs = []
    for begun in (starts, found):
        ends = polish_all(
            task, [prior] * count, begun, task.predictor.sampling(), sigma, TRIED_LONGER, 0.01
        )
        costs.append(np.array([minimum.cost for minimum, _ in ends]))
    explained = task.predictor.sampling().observed.size
    plainly, explored = (int((part < explained).sum()) for part in costs)
    assert explored == count > plainly
    assert costs[1].min() <= costs[0].min()


def test_the_prior_of_stage_1_has_the_moments_of_the_release_behind_kron():
    grid = damped()
    where, belief = coordinates(grid), believe(grid, 0.1)
    prior = push(where, belief, np.random.default_rng(1))
    random = np.random.default_rng(2)
    drawn = [
        where.of_network_and_machines(
            np.log(np.concatenate([belief[name].sample(random, 1)[0] for name in ("k", "m", "d")]))
        )
        for _ in range(3000)
    ]
    spread = np.std(drawn, axis=0)
    assert np.abs((prior.mean - np.mean(drawn, axis=0)) / spread).max() < 0.25  # 400 draws: ± 0.05
    assert np.sqrt(np.diag(np.linalg.inv(prior.precision))) == pytest.approx(spread, rel=0.25)


# --- the result -----------------------------------------------------------------------------------


def small():
    grid = star()
    rng = np.random.default_rng(3)
    return grid._replace(m=rng.uniform(5, 15, 4), d=rng.uniform(2, 8, 4))


def cost_of(grid, belief, observed, sigma, dt):
    """½ Σ (ω − ω̂)²/σ² + ½ Σ (y − E y)²/Var y, from `simulate` and the posterior's moments
    alone.
    """
    e, g = len(grid.k), len(grid.m)

    def cost(y):
        model = reduced_model(
            grid.facts,
            {"k": np.exp(y[:e]), "m": np.exp(y[e : e + g]), "d": np.exp(y[e + g :])},
        )
        data = sum(
            np.nansum(
                (
                    simulate(
                        model,
                        one.event,
                        horizon_s=one.trajectory.time_s[-1],
                        dt_s=dt,
                        buses=one.trajectory.buses,
                    ).omega
                    - one.trajectory.omega
                )
                ** 2
            )
            for one in observed
        )
        machines = [belief[name] for name in ("m", "d")]
        middle = np.concatenate([belief["k"].log_mean, *(np.log(part.mean) for part in machines)])
        spread = np.concatenate(
            [
                belief["k"].log_variance,
                *(np.log(1 + part.variance / part.mean**2) for part in machines),
            ]
        )
        return 0.5 * data / sigma**2 + 0.5 * np.sum((y - middle) ** 2 / spread)

    return cost


@pytest.mark.parametrize(
    ("buses", "nats"),
    [
        (["1", "2", "3", "4"], 0.01),
        pytest.param(["5"], 1.0, marks=pytest.mark.slow),
        pytest.param(["2", "5"], 1.0, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_result_is_the_most_probable_network(buses, nats):
    """A search of scipy's from the truth finds no better one, or, with few places, none better by a
    nat; the gradient is zero.

    Records of few places have several explanations: from "2" and "5", one of 200.0 and one of 200.5
    nats.
    """
    grid, sigma, dt = small(), 1e-4, 0.1
    belief = believe(grid)
    observed = [observe(grid.reduced, buses=buses, dt_s=dt, noise=sigma, horizon_s=20.0)]
    found = two_stage(
        grid.facts, observed, belief, Bounds(), dt_s=dt, scheme="exact", sigma=sigma, starts=8
    )
    cost = cost_of(grid, belief, observed, sigma, dt)
    y = np.log(np.concatenate([found.values["k"], found.values["m"], found.values["d"]]))
    assert found.converged
    assert found.cost == pytest.approx(cost(y), rel=1e-9)
    prior = independent(belief)
    truth = np.log(np.concatenate([grid.k, grid.m, grid.d]))
    other = minimize(
        cost, truth, method="L-BFGS-B", bounds=list(zip(prior.lower, prior.upper, strict=True))
    )
    assert found.cost < other.fun + nats
    inside = (y > prior.lower + 1e-9) & (y < prior.upper - 1e-9)
    gradient = differences(lambda at: np.array([cost(at)]), y, 1e-5)[0]
    # in nats a prior's σ
    assert np.abs(gradient / np.sqrt(np.diag(prior.precision)))[inside].max() < 0.05


def test_the_covariance_and_the_information_are_those_of_the_curvature():
    grid, sigma, dt = small(), 1e-4, 0.1
    belief = believe(grid)
    observed = [observe(grid.reduced, buses=["1", "3"], dt_s=dt, horizon_s=20.0)]
    found = two_stage(grid.facts, observed, belief, Bounds(), dt_s=dt, scheme="exact", sigma=sigma)

    def model(y):
        return reduced_model(grid.facts, dict(zip("kmd", np.exp(np.split(y, [4, 8])), strict=True)))

    def omega(y):
        return (
            simulate(model(y), EVENT, horizon_s=20.0, dt_s=dt, buses=["1", "3"]).omega.ravel()
            / sigma
        )

    y = np.log(np.concatenate([found.values["k"], found.values["m"], found.values["d"]]))
    J = differences(omega, y, 1e-5)
    precision = independent(belief).precision
    push_out = differences(lambda at: model(at).theta, y, 1e-5)
    assert found.covariance == pytest.approx(
        push_out @ np.linalg.inv(J.T @ J + precision) @ push_out.T, rel=1e-4, abs=1e-8
    )
    root = np.sqrt(np.diag(precision))
    values = np.linalg.eigvalsh(J.T @ J / root / root[:, None])[::-1]
    known = found.identifiability
    assert known.information == pytest.approx(values, rel=1e-3, abs=1e-4 * values[0] * 1e-6)
    assert known.by_data == (values > 1).sum() and known.by_data + known.by_prior == 12
    first = J @ known.directions[:, 0]
    assert first @ first == pytest.approx(known.information[0], rel=1e-4)


def test_load_damping_and_two_records_with_gaps_are_fitted():
    grid = damped()
    omega_gap = observe(
        grid.reduced, Event.load({"3": 0.5}, at_s=1.0), horizon_s=10.0, buses=["1", "7", "9"]
    )
    omega = omega_gap.trajectory.omega.copy()
    omega[np.random.default_rng(0).random(omega.shape) < 0.4] = np.nan
    records = [
        observe(grid.reduced, EVENT.then(Event.lost(["2"], at_s=5.0)), buses=["4", "5"]),
        replace(omega_gap, trajectory=replace(omega_gap.trajectory, omega=omega)),
    ]
    found = two_stage(
        grid.facts, records, believe(grid), Bounds(), dt_s=0.05, scheme="exact", sigma=1e-5
    )
    assert found.history[-1] < 1e-6 * sum(
        np.nansum(one.trajectory.omega**2) * 0.05 for one in records
    )
    assert found.model.theta == pytest.approx(reduced_model(grid.facts, found.values).theta)


@pytest.mark.parametrize("machines", [[0], [0, 1, 2]], ids=["one machine", "no interior bus"])
def test_the_smallest_grids_are_fitted(machines):
    grid = make_grid(
        [(0, 1), (1, 2)], [5, 8], machines, m=8, d=3, rate=2, gain=5, loads=[0.1, 0.2, 0.3]
    )
    found = two_stage(
        grid.facts,
        [observe(grid.reduced)],
        believe(grid),
        Bounds(),
        dt_s=0.05,
        scheme="exact",
        sigma=1e-6,
    )
    assert found.values["m"] == pytest.approx(grid.m, rel=1e-3)
    assert found.values["d"] == pytest.approx(grid.d, rel=1e-3)
    if len(machines) == 3:
        # 1 and 3 meet only behind 2
        assert found.model.k_r == pytest.approx([5, 0, 8], rel=1e-3, abs=1e-9)


# --- in Algorithm 1 -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def experiment():
    source = open_grid("ieee30")
    return Experiment(
        source, [*named_transients(), *random_transients(source.facts.buses, 10, seed=7)]
    )


def draw(experiment, run):
    return perturb(
        experiment.source,
        epsilon=HALF,
        adjacency=Adjacency(PAPER.rule),
        bounds=PAPER.bounds,
        ledger=None,
        sampler=DemoSampler([0, run, 1, 2]),
    )


def distance(experiment, models):
    L = experiment._distance(
        np.array([one.theta for one in models]), np.array([one.K_ac for one in models])
    )
    return L[:, :5].mean(axis=1), L[:, 5:].mean(axis=1)


TWO_STAGE = FitSettings("two-stage", "euler", sigma=1e-7)


@pytest.mark.parametrize("draws", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_the_dynamics_come_back_on_transients_that_the_fit_never_saw(experiment, draws):
    """The issue's targets are means of 5e-7 and 6e-6 over at least 100 draws; the paper's descent
    leaves 4.7e-4.
    """
    noisy = [draw(experiment, run) for run in range(draws)]
    observed = [observe(experiment.truth, dt_s=0.01, scheme="euler")]
    start = [reduce(one) for one in noisy]
    found = [
        fit(first, observed, TWO_STAGE, PAPER.bounds, noisy=one)
        for first, one in zip(start, noisy, strict=True)
    ]
    named, held_out = distance(experiment, [one.model for one in found])
    laplace, _ = distance(experiment, start)
    assert all(one.converged for one in found)
    assert (named < laplace).all()
    assert named.mean() < 5e-7 and held_out.mean() < 6e-6
    assert {one.identifiability.rank for one in found} == {31}  # of 53 directions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("buses", "limit"), [(None, 2e-6), (["1"], 2.5e-4)], ids=["six locations", "generator 1"]
)
def test_sensor_noise_leaves_what_it_must(experiment, buses, limit):
    found, alone = [], []
    for run in range(20):
        full = simulate(experiment.truth, EVENT, dt_s=0.01, scheme="euler", buses=buses)
        omega = full.omega[::2] + 1e-4 * np.random.default_rng(run).standard_normal(
            full.omega[::2].shape
        )
        observed = [
            Observation(EVENT, replace(full, time_s=full.time_s[::2], omega=omega), MEASURED)
        ]
        clock = {"dt_s": 0.01, "scheme": "euler", "sigma": 1e-4}
        facts = experiment.source.facts
        found.append(
            two_stage(facts, observed, beliefs(draw(experiment, run)), PAPER.bounds, **clock).model
        )
        if buses is None and run < 8:
            control = no_release({"k": 41, "m": 6, "d": 6}, PAPER.bounds)
            alone.append(two_stage(facts, observed, control, PAPER.bounds, **clock).model)
    assert distance(experiment, found)[0].mean() < limit
    if alone:
        assert np.median(distance(experiment, found)[0]) < np.median(distance(experiment, alone)[0])


def judged(case, model):
    return case.distance(model).mean()


@pytest.mark.parametrize("draws", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_a_grid_that_rings_is_fitted_in_seconds(draws):
    """ieee39: modes of up to 2.7 Hz with damping ratios of less than 1 %, of which a record of 30 s
    holds 80 periods.
    """
    case = CASES["ieee39"]
    for run in range(draws):
        noisy, settings = case.draw(HALF, 0, run), FitSettings("two-stage", dt_s=DT_S, sigma=1e-7)
        start = time.thread_time()
        found = fit(reduce(noisy), [case.record], settings, case.bounds, noisy=noisy)
        assert time.thread_time() - start < 10
        assert found.converged and found.method == "two-stage"
        L, laplace = judged(case, found.model), judged(case, reduce(noisy))
        only_K_ac_wrong = judged(case, reduce(noisy).with_theta(case.truth.theta))
        assert laplace > 100 * L and only_K_ac_wrong > 5 * L


@pytest.mark.slow
def test_54_machines_are_fitted():
    case = CASES["ieee118"]
    noisy = case.draw(HALF, 0, 0)
    record = Observation(PUBLIC, simulate(case.truth, PUBLIC, dt_s=0.04, horizon_s=12.0), ORIGIN)
    found = fit(
        reduce(noisy),
        [record],
        FitSettings("two-stage", dt_s=0.04, sigma=1e-6),
        case.bounds,
        noisy=noisy,
    )
    assert found.method == "two-stage"
    assert judged(case, reduce(noisy)) > 100 * judged(case, found.model)
    assert found.covariance.shape == (1431 + 108, 1431 + 108)


def test_a_network_is_found_without_stage_1(monkeypatch):
    """As it is where the reduced weights are far more than the lines."""
    grid, sigma = small(), 1e-5
    belief, observed = believe(grid), [observe(grid.reduced, noise=sigma)]
    usual = two_stage(
        grid.facts, observed, belief, Bounds(), dt_s=0.05, scheme="exact", sigma=sigma
    )
    monkeypatch.setattr(sys.modules[two_stage.__module__], "MANY", 0)
    found = two_stage(
        grid.facts, observed, belief, Bounds(), dt_s=0.05, scheme="exact", sigma=sigma
    )
    assert found.converged and len(found.costs_of_starts) == 1 < len(usual.costs_of_starts)
    assert found.cost == pytest.approx(usual.cost, abs=1e-2)
    assert found.model.theta == pytest.approx(usual.model.theta, rel=1e-3)


def test_a_record_is_looked_at_from_its_first_period_on():
    case = CASES["ieee39"]
    task = Task.of(case.source.facts, [case.record], case.bounds, dt_s=DT_S, scheme="exact")
    parts = windows(task, case.truth)
    assert parts == [19, 38, 76, 152, 304, 608, 1216, 1501]  # 2.70 Hz at 50 Hz


@pytest.mark.slow
def test_what_the_fit_says_of_J_is_what_the_problem_says(experiment):
    noisy, told = draw(experiment, 1), []
    start = reduce(noisy)
    observed = [observe(experiment.truth, dt_s=0.05, buses=["1", "30"])]
    settings = FitSettings("two-stage", dt_s=0.05, sigma=1e-5)
    with told_to(lambda *news: told.append(news)):
        found = fit(start, observed, settings, PAPER.bounds, noisy)
    J = [
        float(
            problem(model, observed, PAPER.bounds, dt_s=0.05, scheme="exact", rho=0)(model.theta)[0]
        )
        for model in (start, found.model)
    ]
    assert (found.mismatch_before, found.mismatch_after) == pytest.approx(J, rel=1e-8)
    assert found.mismatch_after < 1e-3 * found.mismatch_before
    fitting = [done for words, done, _ in told if words.startswith("fitting, J = ")]
    assert fitting == list(range(1, len(found.history) - 1))
    assert found.covariance.shape == (27, 27)
    again = fit(start, observed, settings, PAPER.bounds, noisy=noisy)
    assert (again.model.theta == found.model.theta).all()  # nothing random but the noise


def test_publish_fits_in_two_stages(tmp_path):
    source = open_grid("star5")
    other = reduced_model(
        source.facts, {"k": np.full(4, 8.0), "m": np.full(4, 9.0), "d": np.full(4, 4.0)}
    )
    release = publish(
        source,
        [observe(other, horizon_s=10.0)],
        epsilon=HALF,
        adjacency=Adjacency(),
        bounds=Bounds(),
        ledger=Ledger(tmp_path / "ledger"),
        settings=FitSettings("two-stage", dt_s=0.05),
    )
    assert (
        release.fitted.converged and release.fitted.mismatch_after < release.fitted.mismatch_before
    )
    assert release.model.K_ac.sum(axis=0) == pytest.approx([1.0])


def a_chain(g):
    """A noisy chain of machines with a bus between two, and a record of two places."""
    grid = make_grid(
        [(i, i + 1) for i in range(2 * g - 1)],
        np.full(2 * g - 1, 5.0),
        range(0, 2 * g, 2),
        m=8,
        d=3,
        rate=2,
        gain=5,
        loads=np.full(2 * g, 0.1),
    )
    noisy = perturb(
        SourceGrid.of(grid.facts, **grid.values),
        epsilon=HALF,
        adjacency=Adjacency(),
        bounds=Bounds(),
        ledger=None,
        sampler=DemoSampler(1),
    )
    return grid.facts, noisy, [observe(grid.reduced, horizon_s=4.0, buses=["1", "8"], noise=1e-5)]


def test_two_stage_is_the_default_and_a_grid_too_large_for_it_is_fitted_all_the_same(monkeypatch):
    assert FitSettings().method == PROFILES["default"].settings.method == "two-stage"
    assert PAPER.settings.method == "projected-gradient"
    facts, noisy, observed = a_chain(TWO_STAGE_UP_TO + 1)
    monkeypatch.setattr(
        import_module("gridveil.inference.fit.network_fit"), "NETWORK_FIT_UP_TO", 80
    )
    settings = FitSettings(dt_s=0.05, iterations=3)
    found = fit(reduce(noisy), observed, settings, Bounds(), noisy=noisy)
    assert found.method == "l-bfgs-b" and found.identifiability is None
    assert found.mismatch_after < found.mismatch_before
    with pytest.raises(OptionError, match="cannot handle 81 machines"):
        two_stage(facts, observed, beliefs(noisy), Bounds(), dt_s=0.05, scheme="exact", sigma=1e-5)


def test_more_machines_than_the_two_stages_take_are_fitted_by_their_network(monkeypatch):
    """With a verdict, and what the records fix; covariances of reduced weights are left out."""
    for name in ("direct", "network_fit", "search"):
        monkeypatch.setattr(import_module(f"gridveil.inference.fit.{name}"), "MODAL", 20)
    facts, noisy, observed = a_chain(TWO_STAGE_UP_TO + 1)
    settings = FitSettings(dt_s=0.05)
    found = fit(reduce(noisy), observed, settings, Bounds(), noisy=noisy)
    assert found.method == "two-stage" and found.verdict is not None
    assert found.mismatch_after < 0.01 * found.mismatch_before
    assert found.covariance is None and found.identifiability.by_data > 0
    guessed = [replace(observed[0], unknown=Unknown(split=True))]
    with pytest.raises(OptionError, match="l-bfgs-b"):
        check_records(guessed, facts, settings, Bounds())


def test_without_the_noisy_grid_or_a_stable_step_the_fit_is_refused(experiment):
    noisy = draw(experiment, 0)
    observed = [observe(experiment.truth, dt_s=0.05, scheme="exact")]
    with pytest.raises(OptionError, match="needs the noisy grid"):
        fit(reduce(noisy), observed, FitSettings("two-stage", dt_s=0.05), PAPER.bounds)
    fast = replace(noisy, facts=replace(noisy.facts, omega_b=377.0))
    with pytest.raises(UnstableStep, match="exact"):
        two_stage(
            fast.facts,
            observed,
            beliefs(noisy),
            PAPER.bounds,
            dt_s=0.05,
            scheme="euler",
            sigma=1e-6,
        )


def test_records_of_two_observations_have_an_input_for_each_step(experiment):
    one = observe(experiment.truth, buses=["1"])
    two = observe(experiment.truth, EVENT.then(Event.lost(["8"], at_s=5.0)), buses=["30", "1"])
    buses, records = as_records([one, two], 0.05)
    assert buses == ("1", "30")
    assert [record.steps for record in records] == [((0, 0),), ((0, 1), (100, 2))]


def test_powers_by_two_tables_are_those_of_numpy():
    factors = np.array([0.999 + 0.02j, 0.5 - 0.5j, 0.0, 1.0, -0.3])
    for first, stride, times in ((0, 1, [0]), (0, 3, range(50)), (2, 5, [0, 3, 4, 77, 300])):
        expected = factors ** (first + stride * np.array(times)[:, None])
        found = _powers(factors, first, stride, np.array(times))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-300)
