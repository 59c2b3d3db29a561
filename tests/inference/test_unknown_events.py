"""Events of unknown place, size or time: derivatives against differences, and what comes back on
the star.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from gridveil.dynamics.events import Event
from gridveil.dynamics.simulate import simulate
from gridveil.foundation.errors import OptionError
from gridveil.grid.parameters import Bounds
from gridveil.inference.fit import FitSettings, Observation, Unknown, fit
from gridveil.inference.fit.coordinates import independent
from gridveil.inference.fit.scale import scale_shift
from gridveil.inference.fit.task import Task
from gridveil.inference.fit.two_stage import two_stage
from gridveil.inference.fit.unknown import onset_s
from gridveil.inference.posterior import Posterior, beliefs, no_release
from gridveil.paper.experiment import Experiment, named_transients
from gridveil.planning.profiles import PROFILES
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.provenance import Provenance
from gridveil.readers.cases import open_grid
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from helpers import random_grid, star

MEASURED = Provenance(
    "measured",
    "Wide-area record",
    "2016-01-06",
    "https://example.org/record",
    "the operator's report",
)
SIZED = Unknown(split=True, size=(0.05, 2.0))


def small():
    rng = np.random.default_rng(3)
    return star()._replace(m=rng.uniform(5, 15, 4), d=rng.uniform(2, 8, 4))


def believe(grid, spread=0.2, seed=0):
    """What a release with noise of a share `spread` of each value would say."""
    random, found = np.random.default_rng(seed), {}
    for name in ("k", "m", "d"):
        values = getattr(grid, name)
        found[name] = Posterior.of(
            values + random.laplace(0, spread * values),
            spread * values,
            values.min() / 5,
            values.max() * 5,
        )
    return found


def guess(grid, total, at_s):
    """An event that says what is known of one whose place is not."""
    machines = [grid.facts.buses[bus] for bus in grid.facts.machines]
    return Event.load(dict.fromkeys(machines, total / len(machines)), at_s=at_s)


def observe(
    grid,
    event,
    unknown,
    *,
    declared_s=None,
    total=None,
    dt_s=0.05,
    buses=None,
    noise=0.0,
    seed=0,
    sigma=None,
    **more,
):
    """A record of an event, of which no more is told than what `unknown` leaves."""
    record = simulate(grid.reduced, event, dt_s=dt_s, buses=buses, **more)
    omega = record.omega + noise * np.random.default_rng(seed).standard_normal(record.omega.shape)
    at_s = event.steps[0].at_s if declared_s is None else declared_s
    if unknown.split:
        told = guess(
            grid, event.steps[0].loads(grid.reduced).sum() if total is None else total, at_s
        )
    else:
        told = Event(
            tuple(
                replace(step, at_s=step.at_s - event.steps[0].at_s + at_s) for step in event.steps
            )
        )
    return Observation(told, replace(record, omega=omega), MEASURED, unknown, sigma)


def differences(function, at, step=1e-6):
    columns = [
        (function(at + step * unit) - function(at - step * unit)) / (2 * step)
        for unit in np.eye(len(at))
    ]
    return np.stack(columns, axis=-1)


# --- derivatives ----------------------------------------------------------------------------------


def mixed(grid, dt_s=0.05):
    """A known event, one of unknown split and time, one of unknown size and split, and a known one
    of unknown time.
    """
    event = Event.load({"3": 0.4, "2": 0.1}, at_s=1.0)
    two = event.then(Event.load({"4": -0.2}, at_s=2.0))
    return [
        observe(grid, event, Unknown(), dt_s=dt_s, horizon_s=4.0, buses=["1", "5"]),
        observe(
            grid,
            event,
            Unknown(split=True, window_s=0.8),
            dt_s=dt_s,
            horizon_s=4.0,
            buses=["2", "5"],
        ),
        observe(grid, event, SIZED, dt_s=dt_s, horizon_s=3.0, buses=["1"]),
        observe(grid, two, Unknown(window_s=0.5), dt_s=dt_s, horizon_s=5.0, buses=["3", "4"]),
    ]


@pytest.mark.parametrize("scheme", ["exact", "trapezoidal", "euler"])
@pytest.mark.parametrize("thin", [1, 4])
def test_the_sensitivities_of_unknown_events_are_those_of_differences(scheme, thin):
    grid = random_grid(12, 4, 8, 4)
    task = Task.of(grid.facts, mixed(grid), Bounds(), dt_s=0.05, scheme=scheme)
    where = task.coordinates
    y = np.concatenate(
        [
            np.log(grid.k),
            np.log(grid.m),
            np.log(grid.d),
            np.random.default_rng(1).normal(0, 0.2, where.unknowns.size),
        ]
    )
    y[-2:] = 0.3313, -0.1737  # delays [s], between two samples
    x, chain = where.slopes(y)
    assert np.allclose(x, where.of_network_and_machines(y))
    assert chain == pytest.approx(differences(where.of_network_and_machines, y), abs=1e-7)
    assert where.model_slopes(x) == pytest.approx(differences(where.values, x), rel=1e-7, abs=1e-7)
    assert where.values_of(y[None])[0] == pytest.approx(where.values(x), rel=1e-12, abs=1e-14)
    assert where.value_slopes(y[None])[0] == pytest.approx(where.model_slopes(x) @ chain, abs=1e-10)
    sampling = task.predictor.sampling(thin)
    slopes = task.slopes(x, sampling) @ where.model_slopes(x)
    expected = differences(lambda at: task.compare(at, sampling), x)
    assert slopes == pytest.approx(expected, rel=1e-5, abs=1e-8 * np.abs(expected).max())


def test_a_delay_of_whole_steps_is_a_shift_and_one_in_between_lies_between():
    grid = small()
    event = Event.load({"5": 0.3}, at_s=2.0)
    records = [observe(grid, event, Unknown(window_s=1.0), horizon_s=6.0, dt_s=0.05)]
    task = Task.of(grid.facts, records, Bounds(), dt_s=0.05, scheme="exact")
    y = np.log(np.concatenate([grid.k, grid.m, grid.d]))
    sampling = task.predictor.sampling()

    def at(late_s):
        x = task.coordinates.of_network_and_machines(np.append(y, late_s))
        return (task.compare(x, sampling) + sampling.observed).reshape(-1, 4)

    for late_s in (-0.5, 0.0, 0.35):
        shifted = simulate(
            grid.reduced, Event.load({"5": 0.3}, at_s=2.0 + late_s), horizon_s=6.0, dt_s=0.05
        ).omega
        assert at(late_s) == pytest.approx(shifted, abs=1e-13)
    fine = simulate(
        grid.reduced, Event.load({"5": 0.3}, at_s=2.36), horizon_s=6.0, dt_s=0.01
    ).omega[::5]
    assert at(0.36) == pytest.approx(fine, abs=1e-13)  # exact between two steps as well


def test_the_prior_of_an_event_has_the_moments_that_it_says():
    grid = small()
    task = Task.of(grid.facts, mixed(grid), Bounds(), dt_s=0.05, scheme="exact")
    prior = independent(believe(grid), task.coordinates.unknowns)
    assert len(prior.mean) == 12 + 3 + 3 + 1 + 2
    sd = 1 / np.sqrt(prior.precision.diagonal())[12:]
    assert sd == pytest.approx(
        [*[0.5] * 6, np.log(40) / np.sqrt(12), 0.8 / np.sqrt(3), 0.5 / np.sqrt(3)]
    )
    assert np.exp(prior.mean[18]) == pytest.approx(np.sqrt(0.1))
    assert (prior.lower[-2:], prior.upper[-2:]) == (
        pytest.approx([-0.8, -0.5]),
        pytest.approx([0.8, 0.5]),
    )
    # A machine's bus with all of it lies 1.5 nats from the even split: no place is ruled out.
    vertex = task.coordinates.basis.T @ np.eye(4)[0]
    assert 0.5 * vertex @ vertex * 4 == pytest.approx(1.5)


def test_machines_lie_at_their_mean_where_sizes_are_known_and_at_that_of_the_logarithm_where_not():
    grid, belief = small(), believe(small())
    sized = Task.of(
        grid.facts, mixed(grid), Bounds(), dt_s=0.05, scheme="exact"
    ).coordinates.unknowns
    assert len(sized.sized)
    for unknown, middle in (
        (None, lambda part: np.log(part.mean)),
        (sized, lambda part: part.log_mean),
    ):
        machines = np.concatenate([middle(belief[name]) for name in ("m", "d")])
        assert independent(belief, unknown).mean[:12] == pytest.approx(
            np.concatenate([belief["k"].log_mean, machines])
        )


# --- what comes back ------------------------------------------------------------------------------

EVENT = Event.load({"5": 0.25, "2": 0.1}, at_s=3.0)


def solve(grid, observed, **settings):
    return two_stage(
        grid.facts,
        observed,
        believe(grid),
        Bounds(),
        **({"dt_s": 0.05, "scheme": "exact", "sigma": 1e-7} | settings),
    )


@pytest.mark.parametrize("buses", [None, ["1", "3"]], ids=["four machines", "two machines"])
def test_an_unknown_split_comes_back_from_an_exact_record(buses):
    grid = small()
    found = solve(grid, [observe(grid, EVENT, Unknown(split=True), buses=buses)])
    (event,) = found.events
    expected = grid.reduced.to_machines(EVENT.steps[0].loads(grid.reduced))
    assert found.converged
    assert (event.total, event.total_sd) == (
        pytest.approx(0.35, rel=1e-12),
        pytest.approx(0, abs=1e-12),
    )
    assert (event.time_s, event.time_sd) == (3.0, 0.0)
    assert np.abs(event.split - expected).max() < (1e-4 if buses is None else 0.02)
    assert (np.abs(event.split - expected) < 5 * event.split_sd + 1e-6).all()
    if buses is None:
        assert found.values["m"] == pytest.approx(grid.m, rel=1e-3)
        assert found.values["d"] == pytest.approx(grid.d, rel=1e-3)


def test_an_unknown_time_comes_back_to_a_hundredth_of_a_step():
    grid = small()
    late = Event.load({"5": 0.25, "2": 0.1}, at_s=3.47)
    record = observe(grid, late, Unknown(window_s=2.0), declared_s=2.5, dt_s=0.01)
    coarse = replace(
        record.trajectory, time_s=record.trajectory.time_s[::5], omega=record.trajectory.omega[::5]
    )
    found = solve(grid, [replace(record, trajectory=coarse)])
    (event,) = found.events
    assert event.total is None and event.split is None
    assert event.time_s == pytest.approx(3.47, abs=5e-4)
    assert 0 < event.time_sd < 5e-4
    assert found.values["m"] == pytest.approx(grid.m, rel=1e-2)


def test_size_split_and_time_come_back_together_and_their_deviations_are_honest():
    """Only the release says how large it all was: the total comes back to what it knows, shares and
    time much better.
    """
    grid = small()
    unknown = Unknown(split=True, size=(0.05, 2.0), window_s=2.0)
    observed = [observe(grid, EVENT, unknown, declared_s=4.2, total=0.3, noise=1e-5)]
    found = solve(grid, observed, sigma=1e-5)
    (event,) = found.events
    expected = grid.reduced.to_machines(EVENT.steps[0].loads(grid.reduced))
    assert found.converged
    assert abs(event.total - 0.35) < 3 * event.total_sd
    assert 0.01 < event.total_sd < 0.15
    assert event.split / event.total == pytest.approx(expected / 0.35, abs=0.02)
    assert abs(event.time_s - 3.0) < max(4 * event.time_sd, 1e-3)
    assert event.time_sd < 0.01
    # What the record does fix are ratios.
    assert found.values["m"] / event.total == pytest.approx(grid.m / 0.35, rel=0.02)


def test_the_deviations_are_those_of_the_curvature():
    grid, sigma = small(), 1e-4
    unknown = Unknown(split=True, size=(0.05, 2.0), window_s=1.0)
    observed = [observe(grid, EVENT, unknown, noise=sigma, horizon_s=15.0)]
    found = solve(grid, observed, sigma=sigma)
    task = Task.of(grid.facts, observed, Bounds(), dt_s=0.05, scheme="exact")
    where, sampling, belief = task.coordinates, task.predictor.sampling(), believe(grid)
    (event,) = found.events
    v = where.basis.T @ (event.split / event.total)
    y = np.concatenate(
        [
            np.log(found.values["k"]),
            np.log(found.values["m"]),
            np.log(found.values["d"]),
            v,
            [np.log(event.total), event.time_s - 3.0],
        ]
    )
    J = differences(
        lambda at: task.compare(where.of_network_and_machines(at), sampling) / sigma, y, 1e-5
    )
    covariance = np.linalg.inv(J.T @ J + independent(belief, where.unknowns).precision)
    assert event.total_sd == pytest.approx(event.total * np.sqrt(covariance[-2, -2]), rel=1e-3)
    assert event.time_sd == pytest.approx(np.sqrt(covariance[-1, -1]), rel=1e-3)
    shares = np.concatenate([event.total * where.basis, event.split[:, None]], axis=1)
    assert event.split_sd == pytest.approx(
        np.sqrt(np.diag(shares @ covariance[-5:-1, -5:-1] @ shares.T)), rel=1e-3
    )
    assert len(found.identifiability.information) == 12 + 5


def test_a_lost_load_of_unknown_size_keeps_its_sign():
    grid = small()
    lost = Event.load({"5": -0.3}, at_s=1.0)
    (event,) = solve(grid, [observe(grid, lost, SIZED, total=-0.5)]).events
    assert event.total < 0 and abs(event.total + 0.3) < 3 * event.total_sd


def test_a_second_event_of_known_size_fixes_the_scale_of_the_first():
    grid = small()
    known = Event.load({"1": 0.2}, at_s=1.0)
    observed = [
        observe(grid, EVENT, SIZED, total=1.0),
        observe(grid, known, Unknown(), horizon_s=20.0),
    ]
    alone, both = solve(grid, observed[:1]), solve(grid, observed)
    (event,) = both.events
    assert event.total == pytest.approx(0.35, rel=1e-3)
    assert event.total_sd < 1e-2 * alone.events[0].total_sd
    assert both.values["m"] == pytest.approx(grid.m, rel=1e-3)


# --- a σ of its own -------------------------------------------------------------------------------


def test_a_record_weighs_what_its_own_sigma_says():
    grid = small()
    good = observe(grid, EVENT, Unknown(), noise=1e-5, sigma=1e-5)
    bad = observe(grid, EVENT, Unknown(), noise=1e-3, seed=1, sigma=1e-3)
    alone = solve(grid, [good], sigma=0.5)  # which nobody takes
    both = solve(grid, [good, bad], sigma=0.5)
    taken = solve(grid, [good, replace(bad, sigma=1e-5)], sigma=0.5)  # as if it were good
    errors = [np.abs(one.values["m"] / grid.m - 1).max() for one in (alone, both, taken)]
    assert errors[1] < 1.2 * errors[0] + 1e-3
    assert errors[2] > 5 * errors[1]
    same = [
        solve(grid, [replace(good, sigma=own)], sigma=usual).values["m"]
        for own, usual in ((1e-5, 0.5), (None, 1e-5))
    ]
    assert (same[0] == same[1]).all()


def test_gaps_of_40_percent_leave_nearly_the_same_answer():
    grid = small()
    whole = observe(grid, EVENT, Unknown(), noise=1e-5)
    omega = whole.trajectory.omega.copy()
    omega[np.random.default_rng(0).random(omega.shape) < 0.4] = np.nan
    gaps = replace(whole, trajectory=replace(whole.trajectory, omega=omega))
    first, second = (solve(grid, [one], sigma=1e-5) for one in (whole, gaps))
    sd = np.sqrt(np.diag(first.covariance))
    assert (np.abs(first.model.theta - second.model.theta) < 3 * sd).all()
    assert second.values["m"] == pytest.approx(grid.m, rel=0.02)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["l-bfgs-b", "projected-gradient"])
@pytest.mark.parametrize("unknown", [Unknown(split=True), SIZED, Unknown(window_s=1.0)])
def test_the_other_methods_need_to_know_the_event(method, unknown):
    grid = small()
    with pytest.raises(
        OptionError, match=r"known size, place and time.*Nothing was fitted.*two-stage"
    ):
        fit(grid.reduced, [observe(grid, EVENT, unknown)], FitSettings(method, dt_s=0.05), Bounds())


@pytest.mark.parametrize(
    ("unknown", "said"),
    [
        ({"window_s": -1.0}, "window of -1 s"),
        ({"window_s": np.inf}, "window of inf s"),
        ({"split": True, "size": (2.0, 0.1)}, "Bounds 2:0.1"),
        ({"split": True, "size": (0.0, 0.1)}, "Bounds 0:0.1"),
        ({"size": (0.1, 2.0)}, "known place"),
    ],
)
def test_what_makes_no_sense_is_refused(unknown, said):
    with pytest.raises(OptionError, match=said):
        Unknown(**unknown)


def test_events_that_cannot_be_estimated_are_refused():
    grid = small()
    two = EVENT.then(Event.load({"1": 0.1}, at_s=5.0))
    for observed, said in (
        (
            Observation(
                two, observe(grid, EVENT, Unknown()).trajectory, MEASURED, Unknown(split=True)
            ),
            "one step",
        ),
        (observe(grid, EVENT, Unknown(split=True), total=0.0), "a total other than 0"),
        (observe(grid, EVENT, Unknown(window_s=4.0)), "before its record begins"),
        (observe(grid, EVENT, Unknown(window_s=3.0), horizon_s=6.0), "after its record ends"),
    ):
        with pytest.raises(OptionError, match=said):
            solve(grid, [observed])


def test_the_onset_is_guessed_from_the_record():
    grid = small()
    for noise in (0.0, 1e-4):
        one = observe(grid, EVENT, Unknown(window_s=2.0), declared_s=4.5, noise=noise)
        assert onset_s(one) == pytest.approx(-1.5, abs=0.3)


# --- the scale that only the release knows --------------------------------------------------------


def test_the_scale_comes_from_the_exact_posterior_of_the_release():
    """With a shape that the records fix, it is right on average, and spreads half as far as the
    Gaussian's.
    """
    rng, low, high, b = np.random.default_rng(0), 1.0, 100.0, 6.0
    x = np.exp(rng.uniform(np.log(1.7), np.log(45), 53))
    log_c = np.linspace(-1.5, 1.5, 3001)
    exact, gaussian = [], []
    for _ in range(60):
        y = np.clip(x + rng.laplace(0, b, len(x)), low, high)
        parts = dict(zip("kmd", np.split(y, [41, 47]), strict=True))
        belief = {name: Posterior.of(part, b, low, high) for name, part in parts.items()}
        prior = independent(belief)
        weights = prior.precision.diagonal()
        middle = weights @ (prior.mean - np.log(x)) / weights.sum()
        shift = scale_shift(belief, prior, np.log(x), np.zeros((53, 53)))
        density = np.exp(-np.abs(np.exp(log_c)[:, None] * x - y).sum(axis=1) / b)
        assert middle + shift == pytest.approx(density @ log_c / density.sum(), abs=1e-3)
        exact.append(middle + shift)
        gaussian.append(middle)
        assert scale_shift(belief, prior, np.log(x), 10 * np.eye(53)) == 0.0  # records fix nothing
    assert abs(np.mean(exact)) < 0.03
    assert np.std(exact) < 0.6 * np.std(gaussian)
    sizes = {"k": 41, "m": 6, "d": 6}
    control = no_release(sizes, Bounds())
    assert scale_shift(control, independent(control), np.log(x), np.zeros((53, 53))) == 0.0


def test_the_scale_of_a_release_with_noise_on_logarithms_counts_in_logarithms():
    rng, low, high, b = np.random.default_rng(0), 0.01, 1000.0, 0.5
    x = np.exp(rng.uniform(np.log(1.7), np.log(45), 53))
    log_c = np.linspace(-1.5, 1.5, 3001)
    for _ in range(10):
        y = np.clip(x * np.exp(rng.laplace(0, b, len(x))), low, high)
        parts = dict(zip("kmd", np.split(y, [41, 47]), strict=True))
        belief = {
            name: Posterior.of(part, b, low, high, relative=True) for name, part in parts.items()
        }
        prior = independent(belief)
        weights = prior.precision.diagonal()
        middle = weights @ (prior.mean - np.log(x)) / weights.sum()
        density = np.exp(-np.abs(log_c[:, None] + np.log(x / y)).sum(axis=1) / b)
        shift = scale_shift(belief, prior, np.log(x), np.zeros((53, 53)))
        assert middle + shift == pytest.approx(density @ log_c / density.sum(), abs=1e-3)


# --- IEEE-30 --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_unknown_split_costs_little_on_ieee30():
    """The issue's target is a median of at most ten times that of the known event; over 30 draws it
    is 3.
    """
    source, paper = open_grid("ieee30"), PROFILES["paper"]
    experiment = Experiment(source, named_transients())
    truth, facts = experiment.truth, source.facts
    clean = simulate(truth, Event.uniform(0.2), dt_s=0.01, scheme="euler", buses=["1", "5", "13"])
    guessed = Event.load(dict.fromkeys(truth.machines, 0.2 * facts.loads.sum() / 6))
    settings, found = {"dt_s": 0.01, "scheme": "euler", "sigma": 1e-4}, {False: [], True: []}
    for run in range(5):
        omega = clean.omega[::2] + 1e-4 * np.random.default_rng(run).standard_normal(
            clean.omega[::2].shape
        )
        record = replace(clean, time_s=clean.time_s[::2], omega=omega)
        noisy = perturb(
            source,
            epsilon=Fraction(1, 2),
            adjacency=Adjacency(paper.rule),
            bounds=paper.bounds,
            ledger=None,
            sampler=DemoSampler([0, run, 1, 2]),
        )
        for split in (False, True):
            one = Observation(
                guessed if split else Event.uniform(0.2), record, MEASURED, Unknown(split=split)
            )
            model = two_stage(facts, [one], beliefs(noisy), paper.bounds, **settings).model
            error = (
                experiment.responses(model.theta[None], model.K_ac[None])[0]
                - experiment.true_responses
            )
            found[split].append(experiment.dt_s * np.einsum("tng,tng->t", error, error).mean())
    assert np.median(found[True]) < 10 * np.median(found[False])
    assert max(found[True]) < 5e-4  # Laplace only: 2e-3
