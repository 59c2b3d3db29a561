"""Controls beside a fitted detailed release: what the same records tell without any release.

Two models are fitted to the records: the public case (declared structure, lines, loads and dispatch
at public values, typical devices) and a frequency response, one machine for the whole grid. Both
are known before a draw. A release that is no nearer to the records than they are tells a recipient
nothing new about those places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.detailed.projection import project
from gridveil.dynamics.engine import LTI
from gridveil.dynamics.engine.propagate import step_responses
from gridveil.dynamics.simulate import simulate
from gridveil.foundation.errors import GridveilError
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import Array, IntArray
from gridveil.inference.fit.detailed import DetailedFit, DetailedFitSettings, fit_detailed
from gridveil.inference.fit.misfit import PlaceMisfit, Rms
from gridveil.inference.fit.problem import Observation, as_records, first_part

T = TypeVar("T")
# ω at the places of each record, at its own times (samples, places) [p.u.].
Answers = tuple[Array, ...]

# Public values are further from the grid than a release: priors three times as wide.
WIDENED = 3.0
STARTS = 8  # of the search for a frequency response
MOST_UNITS = 20  # above which second fits take too long


# --- a frequency response -------------------------------------------------------------------------


@dataclass(frozen=True)
class FrequencyResponse:
    """M ω̇ = −u − D ω − K (F ω + (1 − F) y);  T ẏ = ω − y: one machine for the whole grid.

    gain K [p.u. power / p.u. frequency], inertia M [s], damping D, fraction F of the gain that
    answers at once, time T [s]; u : sum of the added loads [p.u. power].
    """

    gain: float
    inertia: float
    damping: float
    fraction: float
    time_s: float

    @property
    def lti(self) -> LTI:
        """From the total load to ω."""
        fast = self.damping + self.gain * self.fraction
        slow = self.gain * (1 - self.fraction)
        A = np.array(
            [
                [-fast / self.inertia, -slow / self.inertia],
                [1 / self.time_s, -1 / self.time_s],
            ]
        )
        B = np.array([[-1 / self.inertia], [0.0]])
        return LTI.of(A, B, np.array([[1.0, 0.0]]), np.zeros((1, 1)))

    def step(self, samples: int, dt_s: float) -> Array:
        """ω after a unit step of load (samples,) [p.u.]."""
        return step_responses(self.lti, range(1), samples, dt_s=dt_s, scheme="exact")[0, :, 0]

    def answers(self, observed: Sequence[Observation], dt_s: float) -> Answers:
        """All places alike; a machine that trips is its power."""
        clocks = [_samples(record, dt_s) for record in observed]
        step = self.step(max(int(own[-1]) for own in clocks) + 1, dt_s)
        found = []
        for record, own in zip(observed, clocks, strict=True):
            omega = np.zeros(int(own[-1]) + 1)
            for at, total in _totals(record):
                shift = round(at / dt_s)
                omega[shift:] += total * step[: len(omega) - shift]
            found.append(np.repeat(omega[own, None], len(record.trajectory.buses), axis=1))
        return tuple(found)


def fitted_response(observed: Sequence[Observation], dt_s: float) -> FrequencyResponse:
    """Fit the five parameters to records by least squares, from several starts.

    Logarithms of gain, inertia, damping and time are free within wide bounds; the fraction lies in
    0–1. Raises ValueError where the records do not tell how much power was lost.
    """
    # Imported here: a release without detailed devices needs none of scipy.optimize.
    from scipy.optimize import least_squares

    seen = [np.isfinite(record.trajectory.omega) for record in observed]
    measured = np.concatenate(
        [record.trajectory.omega[own] for record, own in zip(observed, seen, strict=True)]
    )
    largest = max(abs(total) for record in observed for _, total in _totals(record))
    size = float(np.abs(measured).max())
    if not (largest > 0 and size > 0):
        raise ValueError("a record without a step of power, or without an answer to it")
    scale = largest / size
    low = np.array([np.log(1e-2 * scale), np.log(1e-2 * scale), np.log(1e-4 * scale), 0.0, -4.0])
    high = np.array([np.log(1e2 * scale), np.log(1e2 * scale), np.log(1e1 * scale), 1.0, 4.0])

    def response(x: Array) -> FrequencyResponse:
        gain, inertia, damping, time = np.exp(x[[0, 1, 2, 4]]).tolist()
        return FrequencyResponse(gain, inertia, damping, float(x[3]), time)

    def residuals(x: Array) -> Array:
        answers = response(x).answers(observed, dt_s)
        own = np.concatenate([omega[there] for omega, there in zip(answers, seen, strict=True)])
        return (own - measured) / (1e-3 * size)

    random = np.random.default_rng(5)
    found = [
        least_squares(residuals, random.uniform(0.7 * low + 0.3 * high, 0.3 * low + 0.7 * high),
                      bounds=(low, high), max_nfev=150)
        for _ in range(STARTS)
    ]  # fmt: skip
    return response(min(found, key=lambda search: search.cost).x)


def _totals(record: Observation) -> list[tuple[float, float]]:
    """When power was lost, and how much altogether [p.u.]."""
    totals = []
    for step in record.event.steps:
        gone = list(step.trips.values())
        if None in gone or step.uniform or step.lost:
            raise ValueError("the lost power is not told")
        totals.append((step.at_s, sum(step.change.values()) + sum(p or 0.0 for p in gone)))
    return totals


# --- public values --------------------------------------------------------------------------------


def record_ports(case: DetailedCase, observed: Sequence[Observation]) -> IntArray:
    """Buses besides the units' that a fit needs: those with load, and those of records."""
    seen = {bus for record in observed for bus in record.trajectory.buses}
    seen |= {bus for record in observed for step in record.event.steps for bus in step.change}
    return np.union1d(case.loads.bus, [i for i, bus in enumerate(case.buses) if bus in seen])


def public_fit(
    public: DetailedCase, observed: Sequence[Observation], settings: DetailedFitSettings
) -> DetailedFit:
    """Fit the public case of a structure to records, as a release is fitted: no release at all."""
    case = project(public, {}).case
    settings = replace(settings, items=False, widened=WIDENED)
    return fit_detailed(case, record_ports(case, observed), observed, settings)


# --- beside a release -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FitControls:
    """What controls answer to the events of records.

    early : the records' first parts, for second fits; None: there are none.
    weights : time that a sample of each record stands for [s].
    public_values, frequency_response : answers when fitted to all, and to the first parts.
    """

    observed: tuple[Observation, ...]
    early: tuple[Observation, ...] | None
    weights: tuple[float, ...]
    settings: DetailedFitSettings
    public_values: tuple[Answers | None, Answers | None]
    frequency_response: tuple[Answers | None, Answers | None]

    def beside(self, released: DetailedCase, fitted: DetailedFit) -> tuple[PlaceMisfit, ...]:
        """Judge a release and its controls at every recorded place.

        released : before its fit. What cannot be computed is None: it fails no release.
        """
        observed, early, settings = self.observed, self.early, self.settings
        ports = record_ports(released, observed)

        def unfitted_model() -> DetailedModel:
            return linearise(released, solve(released), ports)

        def early_model() -> DetailedModel:
            return fit_detailed(released, ports, early or (), settings).model

        whole, unfitted, late = (
            _computed(lambda model=model: answers_of(model(), observed, settings.dt_s))
            for model in (lambda: fitted.model, unfitted_model, early_model if early else _absent)
        )
        both = list(zip(self.public_values, self.frequency_response, strict=True))
        places = []
        for r, record in enumerate(observed):
            for place in range(len(record.trajectory.buses)):
                held_out = None
                if early is not None:
                    first = len(early[r].trajectory.time_s)
                    held_out = self._rms((late, unfitted, *both[1]), r, place, first)
                own = self._rms((whole, unfitted, *both[0]), r, place)
                places.append(PlaceMisfit(r + 1, place + 1, own, held_out))
        return tuple(places)

    def _rms(
        self, answers: Sequence[Answers | None], record: int, place: int, first: int = 0
    ) -> Rms:
        """Compare answers with one place of a record, from its sample `first` on."""
        trajectory = self.observed[record].trajectory
        column = trajectory.omega[first:, place]
        seen = np.isfinite(column)
        left = []
        for answer in answers:
            rms = None
            if answer is not None and seen.any():
                off = (answer[record][first:, place] - column)[seen]
                size = 1000 * trajectory.frequency_hz * float(np.sqrt(np.mean(off**2)))
                rms = size if np.isfinite(size) else None
            left.append(rms)
        return Rms(self.weights[record] * int(seen.sum()), *left)


def controls_of(
    public: DetailedCase, observed: Sequence[Observation], settings: DetailedFitSettings
) -> FitControls:
    """Fit the controls to records. Raises InputError where these are not on the fit's clock.

    Privacy
    -------
    Uses the public case, public records and public settings only: no release, no ε.
    """
    _, sampled = as_records(observed, settings.dt_s)
    parts = [first_part(record) for record in observed]
    early = tuple(part for part in parts if part is not None)
    twice = len(early) == len(parts) and len(public.units.bus) <= MOST_UNITS

    def public_values(seen: Sequence[Observation]) -> Answers:
        return answers_of(public_fit(public, seen, settings).model, observed, settings.dt_s)

    def frequency_response(seen: Sequence[Observation]) -> Answers:
        return fitted_response(seen, settings.dt_s).answers(observed, settings.dt_s)

    def both(control: Callable[[Sequence[Observation]], Answers]) -> Any:
        return (
            _computed(lambda: control(observed)),
            _computed(lambda: control(early)) if twice else None,
        )

    return FitControls(
        tuple(observed),
        early if twice else None,
        tuple(float(record.weights[0, 0]) for record in sampled),
        settings,
        both(public_values),
        both(frequency_response),
    )


def _computed(work: Callable[[], T]) -> T | None:
    """Do numerical work whose failure must not fail a release: None then."""
    try:
        return work()
    except (GridveilError, ArithmeticError, ValueError, np.linalg.LinAlgError):
        return None


def _absent() -> DetailedModel:
    raise ValueError("there is no first part to fit to")


def answers_of(model: DetailedModel, observed: Sequence[Observation], dt_s: float) -> Answers:
    """What a model says that the records hold."""
    return tuple(
        simulate(
            model,
            record.event,
            horizon_s=float(record.trajectory.time_s[-1]),
            dt_s=dt_s,
            buses=record.trajectory.buses,
        ).omega[_samples(record, dt_s)]
        for record in observed
    )


def _samples(record: Observation, dt_s: float) -> IntArray:
    """Numbers of a record's samples on the clock of a fit."""
    return np.rint(record.trajectory.time_s / dt_s).astype(np.int64)
