"""The fit as an optimisation problem: J(θ) over a public box, and two ways down: the paper's
projected gradient steps, and a quasi-Newton method that converges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gridveil.dynamics.engine import LinearFamily, Objective, SampledRecord, SchemeName
from gridveil.dynamics.events import WORDS, Event
from gridveil.dynamics.models import Places, ReducedModel, port_positions
from gridveil.dynamics.simulate import Clock
from gridveil.dynamics.trajectory import Trajectory
from gridveil.foundation.arguments import a_number, of_type, takes
from gridveil.foundation.errors import InputError
from gridveil.foundation.looks import looks
from gridveil.foundation.progress import report
from gridveil.grid.facts import Array, IntArray
from gridveil.grid.parameters import Bounds
from gridveil.inference.fit.unknown import KNOWN, NOT_FITTED, Unknown
from gridveil.privacy.provenance import Provenance

# The last part of a record that a second fit does not see, from its last step of load on, and the
# samples that each part needs.
HELD_OUT, LEAST_SAMPLES = 0.25, 20


@looks(
    lambda one: (
        f"{', '.join(one.trajectory.buses)} after {one.event.in_words()}; "
        f"{one.provenance.in_words()}"
    )
)
@takes(
    event=of_type(Event, WORDS, lambda text: Event.parse(of_type(str, "")(text))),
    trajectory=of_type(Trajectory, "a Trajectory"),
    provenance=of_type(Provenance, "a Provenance"),
    unknown=of_type(Unknown, "an Unknown"),
    sigma=a_number("a deviation above 0 [p.u. frequency]", above=0.0),
)
@dataclass(frozen=True, eq=False)
class Observation:
    """A public trajectory and the event behind it.

    provenance : where both are from; a trajectory simulated from the source itself is for demos
    only. trajectory.omega : NaN where there is a gap.
    unknown : what of the event is to be estimated; the event then is a guess.
    sigma : standard deviation of a sample of this record, sensor and model error together [p.u.
    frequency]; None: the fit's.
    digests : SHA-256 of the record's files, in hex.
    redistribute : whether the record's licence lets a bundle carry it.
    """

    event: Event
    trajectory: Trajectory
    provenance: Provenance
    unknown: Unknown = KNOWN
    sigma: float | None = None
    digests: tuple[str, ...] = ()
    redistribute: bool = False

    def in_words(self) -> str:
        """Describe what the guarantee is conditional on."""
        return "; ".join(
            part for part in (self.provenance.in_words(), self.unknown.in_words()) if part
        )


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise J(θ) = Σ_events ∫ |y − ω̂|² dt + ρ |θ − θ⁰|² over lower ≤ θ ≤ upper.

    mismatch : the integral and its gradient, for θ (..., p).
    start, lower, upper : (p,), or start with a batch in front.
    """

    mismatch: Callable[[Array], tuple[Array, Array]]
    start: Array
    lower: Array
    upper: Array
    rho: float

    def __call__(self, theta: Array) -> tuple[Array, Array]:
        """Return J (...,) and dJ/dθ (..., p)."""
        J, gradient = self.mismatch(theta)
        if not self.rho:
            return J, gradient
        moved = theta - self.start
        return J + self.rho * np.sum(moved**2, axis=-1), gradient + 2 * self.rho * moved


def problem(
    start: ReducedModel,
    observed: Sequence[Observation],
    bounds: Bounds,
    *,
    dt_s: float,
    scheme: SchemeName,
    rho: float,
    same_bits: bool = False,
) -> Problem:
    """Set the fit of (k_r, m, d) up, with K_ac held at its noisy value; same_bits : see
    `Objective`.
    """
    records, drive, sense = on_clock(start, observed, dt_s)
    family = start.family(drive, sense, bounds)
    mismatch = Objective(family, records, dt_s=dt_s, scheme=scheme, same_bits=same_bits)
    return Problem(mismatch, start.theta, *box(family), rho)


def on_clock(
    places: Places, observed: Sequence[Observation], dt_s: float
) -> tuple[list[SampledRecord], Array, IntArray]:
    """Put observations on one clock, and their events and buses on a model's places.

    Returns records, the load that each step of each event adds (ports, s) [p.u. power], and the
    ports that were recorded (h,).
    """
    buses, records = as_records(observed, dt_s)
    steps = [step.loads(places) for one in observed for step in one.event.steps]
    return records, np.stack(steps, axis=1), port_positions(places, buses)


def as_records(
    observed: Sequence[Observation], dt_s: float
) -> tuple[tuple[str, ...], list[SampledRecord]]:
    """Put observations on one clock: recorded buses, and records with one input per step."""
    buses = tuple(
        dict.fromkeys(bus for observation in observed for bus in observation.trajectory.buses)
    )
    records: list[SampledRecord] = []
    column = 0
    for observation in observed:
        count = len(observation.event.steps)
        records.append(_record(observation, buses, dt_s, range(column, column + count)))
        column += count
    return buses, records


def box(family: LinearFamily) -> tuple[Array, Array]:
    """Lay the public bounds of a family's groups out along θ."""
    ends = [
        (group.range.lower, group.range.upper) if group.range else (-np.inf, np.inf)
        for group in family.groups
    ]
    sizes = [group.size for group in family.groups]
    return np.repeat([lower for lower, _ in ends], sizes), np.repeat(
        [upper for _, upper in ends], sizes
    )


def first_part(record: Observation) -> Observation | None:
    """All but the last part of a record; None: one of the two would be too short."""
    time = record.trajectory.time_s
    last = record.event.steps[-1].at_s
    kept = int(np.searchsorted(time, time[-1] - HELD_OUT * (time[-1] - last), side="right"))
    after = kept - int(np.searchsorted(time, last))
    if min(after, len(time) - kept) < LEAST_SAMPLES:
        return None
    trajectory = replace(
        record.trajectory, time_s=time[:kept], omega=record.trajectory.omega[:kept]
    )
    return replace(record, trajectory=trajectory)


def _record(
    observation: Observation, buses: Sequence[str], dt_s: float, columns: Sequence[int]
) -> SampledRecord:
    """Put a trajectory on the fit's clock; samples that it does not have get no weight."""
    time, omega = observation.trajectory.time_s, observation.trajectory.omega
    samples = np.rint(time / dt_s).astype(int)
    if len(time) < 2 or np.abs(samples * dt_s - time).max() > 1e-6 * dt_s:
        raise InputError(
            f"the trajectory's times do not fall on steps of {dt_s:g} s",
            expected="at least two samples, each at a multiple of the fit's time step",
            outcome=NOT_FITTED,
        )
    if not np.isfinite(omega).any():
        raise InputError(
            "the trajectory holds no finite value",
            expected="frequencies in p.u.",
            outcome=NOT_FITTED,
        )
    clock = Clock(float(time[-1]), dt_s)
    observed = np.full((clock.steps + 1, len(buses)), np.nan)
    places = [list(buses).index(bus) for bus in observation.trajectory.buses]
    observed[samples[:, None], places] = omega
    between = np.diff(time)  # 30 Hz come as 0.03, 0.03 and 0.04 s; a row may be missing
    usual_s = float(between[between <= 1.5 * np.median(between)].mean())
    weights = np.full(observed.shape, usual_s)
    for place, values in zip(places, omega.T, strict=True):
        own = np.diff(time[np.isfinite(values)])
        if len(own) and (shortest := np.quantile(own, 0.05)) > 1.5 * usual_s:
            # of a slower place, or of a file whose samples lie between those of others
            weights[:, place] = float(own[own <= 1.5 * shortest].mean())
    return SampledRecord(
        tuple(
            (clock.sample(step.at_s), column)
            for step, column in zip(observation.event.steps, columns, strict=True)
        ),
        observed,
        weights,
    )


def report_step(done: int, total: int, J: float) -> None:
    """Report an iteration of a fit, how many there may be, and J [p.u.² s]."""
    report(f"fitting, J = {J:.3e} p.u.² s", done, total)


def projected_gradient(
    problem: Problem,
    start: Array,
    *,
    step: float,
    iterations: int,
) -> tuple[Array, Array]:
    """Take θ ← P[θ − η dJ/dθ] a fixed number of times: Algorithm 1, step 3, to the letter.

    start : (p,) or (batch, p), not projected: only what the steps lead to is.
    Returns θ of the same shape, and J before the first and after each step: (iterations + 1, ...).
    """
    theta = start
    history = []
    for iteration in range(iterations):
        J, gradient = problem(theta)
        history.append(J)
        theta = np.clip(theta - step * gradient, problem.lower, problem.upper)
        report_step(iteration + 1, iterations, float(np.mean(J)))
    history.append(problem(theta)[0])
    return theta, np.array(history)


def quasi_newton(problem: Problem, start: Array, *, iterations: int) -> tuple[Array, Array, bool]:
    """Minimise by L-BFGS-B over the box, in parameters scaled by their start.

    Returns θ (p,), J of each iteration, and whether it converged.
    """
    from scipy.optimize import minimize

    inside = np.clip(start, problem.lower, problem.upper)
    scale = np.maximum(inside, 1e-2 * (problem.upper - problem.lower))
    first = float(problem(inside)[0])
    unit = first if first > 0 else 1.0
    history = [first]
    last: dict[str, float] = {"J": first}

    def scaled(phi: Array) -> tuple[float, Array]:
        J, gradient = problem(phi * scale)
        last["J"] = float(J)
        return float(J) / unit, gradient * scale / unit

    def note(_: Array) -> None:
        history.append(last["J"])
        report_step(len(history) - 1, iterations, last["J"])

    minimum = minimize(
        scaled,
        inside / scale,
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(problem.lower / scale, problem.upper / scale, strict=True)),
        callback=note,
        options={
            "maxiter": iterations,
            "maxfun": 4 * iterations,
            "maxcor": 30,
            "ftol": 1e-14,
            "gtol": 1e-7,
        },
    )
    theta = np.clip(minimum.x * scale, problem.lower, problem.upper)
    return theta, np.array(history), bool(minimum.success)
