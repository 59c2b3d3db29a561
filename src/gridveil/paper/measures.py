"""Figures of the reproduction: means with intervals, medians, shares, spreads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gridveil.grid.facts import Array
from gridveil.paper.experiment import EVENT_S, HORIZON_S, Experiment, Runs

NAMED = 5  # the first transients are the paper's


@dataclass(frozen=True)
class Mismatch:
    """L over runs, each the mean over transients of ∫ |ω − ω_ref|² dt [p.u.² s].

    mean with its 90 % interval (normal, over runs), median, and the 80 % interval of single runs.
    time_mean : mean over the 20 s after the event [p.u.²].
    rms_mhz : √ of that a machine, in mHz.
    """

    mean: float
    mean_low: float
    mean_high: float
    median: float
    low80: float
    high80: float
    time_mean: float
    rms_mhz: float


@dataclass(frozen=True)
class EpsilonLevel:
    """All figures of one ε.

    shift_by_… : how far step 3 moves the median of an item, in interquartile ranges before it.
    error_of_last_named_by_machine : share of the error on the paper's transient 5 that falls on
    each machine.
    """

    epsilon: str
    runs: int
    laplace: Mismatch
    fitted: Mismatch
    laplace_all: Mismatch
    fitted_all: Mismatch
    wins: float
    wins_by_transient: tuple[float, ...]
    relative_error_by_transient: tuple[float, ...]
    mismatch_share_at_100: tuple[float, float, float]
    mismatch_share_at_end: tuple[float, float, float]
    rmse_before: dict[str, float]
    rmse_after: dict[str, float]
    spread_before: dict[str, float]
    spread_after: dict[str, float]
    damping_rmse_by_machine: tuple[tuple[float, float], ...]
    shift_by_line: tuple[float, ...]
    shift_by_inertia: tuple[float, ...]
    error_of_last_named_by_machine: tuple[float, ...]


def mismatch(experiment: Experiment, L: Array) -> Mismatch:
    """Summarise L of runs (runs,)."""
    half = 1.645 * L.std(ddof=1) / np.sqrt(len(L)) if len(L) > 1 else float("nan")
    mean = float(L.mean())
    time_mean = mean / (HORIZON_S - EVENT_S)
    rms = np.sqrt(time_mean / len(experiment.truth.m))
    low, high = np.quantile(L, [0.1, 0.9])
    return Mismatch(
        mean=mean,
        mean_low=float(mean - half),
        mean_high=float(mean + half),
        median=float(np.median(L)),
        low80=float(low),
        high80=float(high),
        time_mean=time_mean,
        rms_mhz=float(1e3 * experiment.truth.frequency_hz * rms),
    )


def level(experiment: Experiment, epsilon: Fraction, runs: Runs) -> EpsilonLevel:
    """Compute the figures of one ε."""
    named_lap, named_pp = runs.L_lap[:, :NAMED].mean(axis=1), runs.L_pp[:, :NAMED].mean(axis=1)
    size = experiment.dt_s * (experiment.true_responses**2).sum(axis=(1, 2))
    groups = groups_of(experiment)
    truth = experiment.truth.theta
    d = groups["d"]
    return EpsilonLevel(
        epsilon=str(epsilon),
        runs=len(runs.before),
        laplace=mismatch(experiment, named_lap),
        fitted=mismatch(experiment, named_pp),
        laplace_all=mismatch(experiment, runs.L_lap.mean(axis=1)),
        fitted_all=mismatch(experiment, runs.L_pp.mean(axis=1)),
        wins=float((named_pp < named_lap).mean()),
        wins_by_transient=tuple((runs.L_pp < runs.L_lap).mean(axis=0).tolist()),
        relative_error_by_transient=tuple((runs.L_pp.mean(axis=0) / size).tolist()),
        mismatch_share_at_100=_share(runs, min(100, runs.history.shape[1] - 1)),
        mismatch_share_at_end=_share(runs, runs.history.shape[1] - 1),
        rmse_before={
            name: _rmse(runs.before[:, part], truth[part]) for name, part in groups.items()
        },
        rmse_after={name: _rmse(runs.after[:, part], truth[part]) for name, part in groups.items()},
        spread_before={
            name: _quartile_range(runs.before[:, part]) for name, part in groups.items()
        },
        spread_after={name: _quartile_range(runs.after[:, part]) for name, part in groups.items()},
        damping_rmse_by_machine=tuple(
            (_rmse(runs.before[:, i], truth[i]), _rmse(runs.after[:, i], truth[i]))
            for i in range(d.start, d.stop)
        ),
        shift_by_line=_shift(runs, groups["k_r"]),
        shift_by_inertia=_shift(runs, groups["m"]),
        error_of_last_named_by_machine=_by_machine(experiment, runs),
    )


def levels(experiment: Experiment, results: Mapping[Fraction, Runs]) -> list[EpsilonLevel]:
    """Compute the figures of every ε."""
    return [level(experiment, epsilon, runs) for epsilon, runs in results.items()]


def groups_of(experiment: Experiment) -> dict[str, slice]:
    """Where each parameter lies in θ."""
    e, g = len(experiment.truth.k_r), len(experiment.truth.m)
    return {"k_r": slice(0, e), "m": slice(e, e + g), "d": slice(e + g, e + 2 * g)}


def _share(runs: Runs, iteration: int) -> tuple[float, float, float]:
    """Quartiles over runs of J at an iteration, as a share of J at the start."""
    low, middle, high = np.quantile(
        runs.history[:, iteration] / runs.history[:, 0], [0.25, 0.5, 0.75]
    )
    return float(low), float(middle), float(high)


def _shift(runs: Runs, part: slice) -> tuple[float, ...]:
    low, middle, high = np.quantile(runs.before[:, part], [0.25, 0.5, 0.75], axis=0)
    return tuple(((np.median(runs.after[:, part], axis=0) - middle) / (high - low)).tolist())


def _by_machine(experiment: Experiment, runs: Runs, models: int = 100) -> tuple[float, ...]:
    responses = experiment.responses(runs.after[:models], runs.K_ac[:models])[:, NAMED - 1]
    error = ((responses - experiment.true_responses[NAMED - 1]) ** 2).sum(axis=(0, 1))
    return tuple((error / error.sum()).tolist())


def _rmse(values: Array, truth: Array) -> float:
    return float(np.sqrt(np.mean((values - truth) ** 2)))


def _quartile_range(values: Array) -> float:
    """Interquartile range over runs, mean over the items of a group."""
    low, high = np.quantile(values, [0.25, 0.75], axis=0)
    return float(np.mean(high - low))
