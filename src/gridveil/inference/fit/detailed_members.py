"""Fit the members of an ensemble to records: each from its own case, with its own record noise.

Randomise, then optimise: a member's case is a draw of what the release leaves possible, its record
has fresh noise, and factors and discrepancies have drawn prior means. Slopes are those of the
fitted release, mended by what each step shows (Broyden 1965).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gridveil.dynamics.detailed.equilibrium import Equilibrium, solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import Array, IntArray
from gridveil.inference.fit.detailed import (
    LONGEST_STEP,
    DetailedFit,
    DetailedFitSettings,
    factor_prior,
    standing_fit,
)
from gridveil.inference.fit.detailed_residuals import (
    DetailedResiduals,
    Prediction,
    discrepancy_shapes,
)
from gridveil.inference.fit.factors import Factor, factors_of, without_exponents
from gridveil.inference.fit.least_squares import Gaussian, minimise
from gridveil.inference.fit.problem import Observation
from gridveil.inference.plausible import EXTREMES

STEPS = 8  # of a member's search
CLOSE = 0.5  # decrease of ½ χ² at which it ends


@dataclass(eq=False)
class Mended:
    """Residuals whose slopes follow from a first guess and the steps taken."""

    residuals: DetailedResiduals
    guess: Array
    last: tuple[Array, Array] | None = None

    def at(self, x: Array) -> Array:
        """See `Residuals`."""
        return self.residuals.at(x)

    def slopes(self, x: Array) -> Array:
        """The guess, mended so that it explains the last step."""
        r = self.residuals.at(x)
        if self.last is not None:
            step = x - self.last[0]
            missed = r - self.last[1] - self.guess @ step
            self.guess = self.guess + np.outer(missed, step) / (step @ step)
        self.last = (x, r)
        return self.guess


@dataclass(frozen=True, eq=False)
class MemberFits:
    """What all members of an ensemble share.

    slopes : (rows, n + sizes) of the residuals at the fitted release, in units of sigma.
    sigma : (r, 1, h) deviation of a sample that counts as independent [p.u.].
    start : (n + sizes,) where the release ended.
    """

    ports: IntArray
    observed: tuple[Observation, ...]
    settings: DetailedFitSettings
    factors: tuple[Factor, ...]
    prior: Gaussian
    shapes: Array
    sigma: Array
    start: Array
    slopes: Array

    @classmethod
    def of(
        cls,
        case: DetailedCase,
        ports: IntArray,
        observed: Sequence[Observation],
        settings: DetailedFitSettings,
        fitted: DetailedFit,
    ) -> MemberFits:
        """Take slopes once, at the fitted release; case : the release before its fit."""
        moving = factors_of(case, exponents=settings.exponents, items=settings.items)
        prediction = prediction_of(case, ports, moving, observed, settings)
        shapes = discrepancy_shapes(prediction.records, settings.dt_s, settings.discrepancy)
        together = np.maximum(fitted.correlation_s / settings.dt_s, 1.0)
        sigma = (fitted.sigma * np.sqrt(together))[:, None]
        found = np.array([factor.x for factor in fitted.factors])
        start = np.concatenate([found, fitted.discrepancy.ravel()])
        return cls(
            ports,
            tuple(observed),
            settings,
            moving,
            factor_prior(moving, fitted.discrepancy.size, settings.widened),
            shapes,
            sigma,
            start,
            DetailedResiduals(prediction, sigma, shapes).slopes(start),
        )

    def fitted(
        self, case: DetailedCase, random: np.random.Generator
    ) -> tuple[DetailedCase, Equilibrium]:
        """Fit a member's case to its own record; it stands, if the case does."""
        prediction = prediction_of(case, self.ports, self.factors, self.observed, self.settings)
        records = prediction.records
        noise = self.sigma * random.standard_normal(records.observed.shape)
        prediction = replace(
            prediction, records=replace(records, observed=records.observed + noise)
        )
        residuals = DetailedResiduals(prediction, self.sigma, self.shapes)
        minimum = minimise(
            Mended(residuals, self.slopes),
            replace(self.prior, mean=self._mean(random)),
            self.start,
            cap=LONGEST_STEP,
            iterations=STEPS,
            tolerance=CLOSE,
        )
        x, base = minimum.x[: len(self.factors)], prediction.family.case
        _, _, found, equilibrium, _ = standing_fit(prediction, base, case, self.ports, x)
        return found, equilibrium

    def _mean(self, random: np.random.Generator) -> Array:
        """Prior means, drawn from the prior; shares lie nearer to 0 and 1."""
        spread = self.prior.precision.diagonal() ** -0.5
        shares = [factor.kind == "share" for factor in self.factors]
        spread[: len(shares)] *= np.where(shares, EXTREMES, 1.0)
        return spread * random.standard_normal(len(spread))


def prediction_of(
    case: DetailedCase,
    ports: IntArray,
    factors: Sequence[Factor],
    observed: Sequence[Observation],
    settings: DetailedFitSettings,
) -> Prediction:
    """What a case says at the places of records, by factors."""
    base = without_exponents(case) if settings.exponents else case
    places = linearise(case, solve(case), ports)
    return Prediction.of(
        base, places, ports, factors, observed, dt_s=settings.dt_s, scheme=settings.scheme
    )
