"""Fit a detailed release to public records: common factors, and single units beside them.

Post-processing: it takes a released case, records and public settings. Model error counts: σ is
estimated from the residual, whose samples are not independent, and every recorded bus has a
discrepancy of low order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gridveil.dynamics.detailed.equilibrium import Equilibrium, NoOperatingPoint, solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.detailed.numbers import Numbers
from gridveil.dynamics.detailed.projection import LEAST_DAMPING, is_stable, least_damping
from gridveil.dynamics.engine import SchemeName
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import Array, IntArray
from gridveil.inference.fit.detailed_residuals import (
    DetailedResiduals,
    H,
    Prediction,
    discrepancy_shapes,
)
from gridveil.inference.fit.factors import Factor, factors_of, theta_of, without_exponents
from gridveil.inference.fit.guard import Verdict
from gridveil.inference.fit.least_squares import Gaussian, Minimum, minimise
from gridveil.inference.fit.noise import noise_of
from gridveil.inference.fit.outcome import covariance as posterior_covariance
from gridveil.inference.fit.problem import Observation

LONGEST_STEP = 0.5  # of a coordinate x
# Decreases of ½ χ² that end a search: the last one, and those before it, whose σ is not yet known.
CLOSE, NEAR = 0.05, 1.0
FIRST_SIGMA = 0.1  # of a record's size, before anything is fitted
# Tries to make a fit stand along what its records leave open, and how far beyond ζ they aim.
TRIES, BEYOND = 6, 0.003


@dataclass(frozen=True)
class DetailedFitSettings:
    """How to fit a detailed release. All of it is public and fixed before the draw.

    exponents : estimate the loads' shares, where they are not declared.
    items : inertia and governor gain of single units too. It helps where units are few (Kundur's
    four) and not on ieee39, at several times the cost.
    sigma : least deviation of a sample, that of the sensor [p.u. frequency].
    discrepancy : of a bus's response, that a linear model with common factors may miss.
    rounds : of σ estimated and factors fitted.
    widened : how much wider the priors of factors are than those of a release; for a case of public
    values.
    """

    exponents: bool = True
    items: bool = False
    dt_s: float = 0.02
    scheme: SchemeName = "exact"
    sigma: float = 1e-5
    discrepancy: float = 0.01
    rounds: int = 3
    iterations: int = 20
    widened: float = 1.0


@dataclass(frozen=True)
class FittedFactor:
    """A common factor as found.

    value : e^x, a share, or D/M [1/s]; deviation : of x, the coordinate with the prior N(0, s²).
    informed : 1 − (deviation / s)², what of the prior's variance the records took away.
    """

    name: str
    title: str
    value: float
    x: float
    deviation: float
    informed: float


@dataclass(frozen=True, eq=False)
class DetailedFit:
    """A fitted detailed release.

    sigma : (r, h) deviation of a sample, estimated [p.u.]; correlation_s : (r, h) time over which
    residuals go together [s]; discrepancy : (h, 2) sizes, in units of the allowed share.
    mismatch_before, mismatch_after : Σ ∫ |y − ŷ|² dt [p.u.² s].
    covariance : (n, n) of the factors' x; by_records, by_release : directions of x that the records
    fix, and that the release and its priors do. A deviation does not know of what no factor moves:
    where the released case is wrong otherwise, factors may be off by several of them.
    moved_back : share of the way back to the release that stability needed; 0 mostly.
    verdict : of `gridveil.inference.fit.guard_detailed`; None: not judged.
    """

    case: DetailedCase
    equilibrium: Equilibrium
    model: DetailedModel
    factors: tuple[FittedFactor, ...]
    covariance: Array
    by_records: int
    by_release: int
    sigma: Array
    correlation_s: Array
    discrepancy: Array
    mismatch_before: float
    mismatch_after: float
    history: Array
    converged: bool
    moved_back: float
    verdict: Verdict | None = None

    def factor(self, name: str) -> FittedFactor:
        """A factor by its name."""
        return next(factor for factor in self.factors if factor.name == name)


def fit_detailed(
    case: DetailedCase,
    ports: IntArray,
    observed: Sequence[Observation],
    settings: DetailedFitSettings,
) -> DetailedFit:
    """Fit factors of a released case to public records.

    ports : buses besides the units' where load may change and frequency is read.

    Privacy
    -------
    Uses the released case, public records and public settings only: post-processing.
    """
    moving = factors_of(case, exponents=settings.exponents, items=settings.items)
    base = without_exponents(case) if settings.exponents else case
    places = linearise(case, solve(case), ports)
    prediction = Prediction.of(
        base, places, ports, moving, observed, dt_s=settings.dt_s, scheme=settings.scheme
    )
    shapes = discrepancy_shapes(prediction.records, settings.dt_s, settings.discrepancy)
    prior = factor_prior(moving, shapes.shape[2] * shapes.shape[3], settings.widened)
    minimum, sigma, correlation, history = _Search(prediction, shapes, prior, settings).run()
    n = len(moving)
    covariance = posterior_covariance(prior, minimum)[:n, :n]
    x, back, fitted, equilibrium, model = standing_fit(
        prediction, base, case, ports, minimum.x[:n], covariance
    )
    deviations = np.sqrt(covariance.diagonal())
    spreads = prior.precision.diagonal()[:n] ** -0.5
    left = np.linalg.eigvalsh(covariance / np.outer(spreads, spreads))  # of the prior's variance
    by_records = int((left < 0.5).sum())
    return DetailedFit(
        case=fitted,
        equilibrium=equilibrium,
        model=model,
        factors=tuple(
            FittedFactor(
                factor.name,
                factor.title,
                float(factor.value(x[i])),
                float(x[i]),
                float(deviations[i]),
                float(1 - (deviations[i] / spreads[i]) ** 2),
            )
            for i, factor in enumerate(moving)
        ),
        covariance=covariance,
        by_records=by_records,
        by_release=n - by_records,
        sigma=sigma[:, 0],
        correlation_s=correlation[:, 0],
        discrepancy=minimum.x[n:].reshape(shapes.shape[2:]),
        mismatch_before=float(history[0]),
        mismatch_after=_mismatch(prediction, x),
        history=history,
        converged=minimum.converged,
        moved_back=back,
    )


def factor_prior(factors: Sequence[Factor], sizes: int, widened: float) -> Gaussian:
    """N(0, s²) of each factor, N(0, 1) of each size of the discrepancy."""
    own = [factor.spread * (widened if factor.kind == "factor" else 1.0) for factor in factors]
    spreads = np.concatenate([own, np.ones(sizes)])
    ends = np.array([*(factor.range for factor in factors), *[(-10.0, 10.0)] * sizes])
    return Gaussian(np.zeros(len(spreads)), np.diag(spreads**-2), ends[:, 0], ends[:, 1])


def _mismatch(prediction: Prediction, x: Array) -> float:
    """Σ ∫ |y − ŷ|² dt, without the discrepancy [p.u.² s]."""
    records = prediction.records
    return float(np.sum(records.weights * (prediction.at(x) - records.observed) ** 2))


@dataclass(frozen=True, eq=False)
class _Search:
    """Rounds of factors fitted at a given σ, and σ estimated at given factors."""

    prediction: Prediction
    shapes: Array
    prior: Gaussian
    settings: DetailedFitSettings

    def run(self) -> tuple[Minimum, Array, Array, Array]:
        """The last minimum, σ and correlation time (r, 1, h), and the mismatch of each round."""
        n = len(self.prediction.factors)
        history = [_mismatch(self.prediction, self.prior.mean[:n])]
        sigma = self._first()
        correlation = np.full_like(sigma, self.settings.dt_s)
        minimum = self._fitted(self.prior.mean, sigma, NEAR)
        for remaining in reversed(range(self.settings.rounds - 1)):
            history.append(_mismatch(self.prediction, minimum.x[:n]))
            sigma, correlation = self._estimated(minimum, sigma, correlation)
            effective = self._effective(sigma, correlation)
            minimum = self._fitted(minimum.x, effective, NEAR if remaining else CLOSE)
        history.append(_mismatch(self.prediction, minimum.x[:n]))
        return minimum, sigma, correlation, np.array(history)

    def _fitted(self, start: Array, sigma: Array, tolerance: float) -> Minimum:
        return minimise(
            DetailedResiduals(self.prediction, sigma, self.shapes),
            self.prior,
            start,
            cap=LONGEST_STEP,
            iterations=self.settings.iterations,
            tolerance=tolerance,
        )

    def _effective(self, sigma: Array, correlation: Array) -> Array:
        """σ of a sample that counts as independent."""
        return sigma * np.sqrt(np.maximum(correlation / self.settings.dt_s, 1.0))

    def _first(self) -> Array:
        """A tenth of a record's size: before anything is fitted, most of the residual is model."""
        records = self.prediction.records
        seen = _count(records.weights > 0)
        size = np.sqrt(np.sum(records.observed**2, axis=1, keepdims=True) / seen)
        return np.maximum(FIRST_SIGMA * size, self.settings.sigma)

    def _estimated(self, minimum: Minimum, sigma: Array, correlation: Array) -> tuple[Array, Array]:
        """σ and correlation time (r, 1, h) of what is left of the records."""
        records = self.prediction.records
        seen = records.weights > 0
        left = np.zeros(records.observed.shape)
        left[seen] = minimum.residuals
        found = noise_of(left * self._effective(sigma, correlation), seen, self.settings.dt_s)
        rms = np.maximum(found.rms, self.settings.sigma)
        return rms[:, None], self.settings.dt_s * found.together[:, None]


def _count(seen: NDArray[np.bool_]) -> Array:
    """Samples that count (r, 1, h), at least one."""
    return np.maximum(seen.sum(axis=1, keepdims=True), 1).astype(np.float64)


def standing_fit(
    prediction: Prediction,
    base: DetailedCase,
    released: DetailedCase,
    ports: IntArray,
    x: Array,
    covariance: Array | None = None,
) -> tuple[Array, float, DetailedCase, Equilibrium, DetailedModel]:
    """The fitted case, moved until its model is stable: first along what records leave open, then
    back toward the release; at last the release itself, which is.

    covariance : (n, n) of x; without it, a fit is moved back alone.
    """

    def at(here: Array) -> tuple[DetailedCase, Equilibrium, DetailedModel] | None:
        case = case_with(base, prediction.family.numbers(theta_of(prediction.factors, here)))
        try:
            equilibrium = solve(case)
            return case, equilibrium, linearise(case, equilibrium, ports)
        except (NoOperatingPoint, np.linalg.LinAlgError):
            return None

    if (found := at(x)) is not None and is_stable(found[2]):
        return x, 0.0, *found
    if found is not None and covariance is not None:
        here = stabler(lambda x: (there := at(x)) and least_damping(there[2]), x, covariance)
        here = np.clip(here, *np.array([factor.range for factor in prediction.factors]).T)
        if (found := at(here)) is not None and is_stable(found[2]):
            return here, 0.0, *found
    for back in np.arange(0.125, 1.0, 0.125):
        here = (1 - back) * x
        if (found := at(here)) is not None and is_stable(found[2]):
            return here, float(back), *found
    equilibrium = solve(released)
    model = linearise(released, equilibrium, ports)
    return np.zeros_like(x), 1.0, released, equilibrium, model


def stabler(damping: Callable[[Array], float | None], x: Array, covariance: Array) -> Array:
    """Go from x to the least ζ by the likeliest way: Σ g (ζ* − ζ) / gᵀ Σ g, g the slope of ζ.

    damping : the least ζ at x, None where there is none.
    """
    for _ in range(TRIES):
        ratio = damping(x)
        if ratio is None or ratio >= LEAST_DAMPING:
            break
        steps = [damping(x + H * own) for own in np.eye(len(x))]
        g = np.array([0.0 if step is None else (step - ratio) / H for step in steps])
        way = covariance @ g
        if not g @ way > 0:
            break
        x = x + way * (LEAST_DAMPING + BEYOND - ratio) / (g @ way)
    return x


def case_with(case: DetailedCase, numbers: Numbers) -> DetailedCase:
    """Write columns of numbers back into a case: `numbers_of`, inverted."""
    branch, load, unit = numbers["branch"], numbers["load"], numbers["unit"]
    return replace(
        case,
        branches=replace(
            case.branches,
            series=branch["r"] + 1j * branch["x"],
            charging=branch["b"],
            ratio=branch["tap"] * np.exp(1j * branch["phase"]),
        ),
        shunt=numbers["shunt"]["g"] + 1j * numbers["shunt"]["b"],
        loads=replace(
            case.loads,
            power=load["p"] + 1j * load["q"],
            impedance=np.stack([load["zp"], load["zq"]], axis=1),
            current=np.stack([load["ip"], load["iq"]], axis=1),
        ),
        units=replace(case.units, power=unit["power"], set_point=unit["set_point"]),
        devices=tuple(replace(table, values=numbers[table.model]) for table in case.devices),
    )
