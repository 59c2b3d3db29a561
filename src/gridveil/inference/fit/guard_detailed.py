"""The guard on a detailed fit: the same grades as of a swing fit, by what a detailed fit shows.

Its factors have wide priors of their own, so that a fit explains much. What the release itself says
is therefore asked first: how the unfitted model answers the recorded event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from scipy.stats import chi2

from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import Array
from gridveil.inference.fit.controls import FitControls, answers_of, record_ports
from gridveil.inference.fit.detailed import DetailedFit
from gridveil.inference.fit.factors import factors_of
from gridveil.inference.fit.guard import (
    Finding,
    Verdict,
    held_out_findings,
    residual_findings,
)
from gridveil.inference.fit.misfit import PlaceMisfit
from gridveil.privacy.noisy import NoisyGrid

# What fixes the size of a response, and its deviation [of a logarithm] where nothing was drawn.
SIZED_BY, UNDRAWN = ("M", "gov_gain"), 0.5
# Deviations that a record's size may lie from what the release answers; and the share of it that
# no multiple of that answer explains.
MOST_DEVIATIONS, MOST_UNLIKE = 2.7, 0.08
# A fit that leaves more of a record than this share, with factors beyond this quantile of their
# priors: the event is not the one that was recorded.
LEFT, FAR = 0.035, 0.99
# That quantile alone: no grid of this structure.
FARTHEST = 1 - 1e-6


@dataclass(frozen=True, eq=False)
class DetailedGuard:
    """What the guard of a detailed fit looks at.

    released : before its fit; deviation : of the logarithm of its response, by the public noise;
    misfit : of `FitControls.beside`.
    """

    released: DetailedCase
    fitted: DetailedFit
    misfit: Sequence[PlaceMisfit]
    controls: FitControls
    deviation: float

    def verdict(self) -> Verdict:
        """Judge the fit, on public data alone."""
        return Verdict.of([*self._answer(), *self._residual(), *self._held_out(), *self._factors()])

    def _recorded(self) -> list[Array]:
        return [record.trajectory.omega for record in self.controls.observed]

    def _answer(self) -> Iterator[Finding]:
        """The record against what the unfitted release answers: its size, and its shape."""
        ports = record_ports(self.released, self.controls.observed)
        model = linearise(self.released, solve(self.released), ports)
        answers = answers_of(model, self.controls.observed, self.controls.settings.dt_s)
        for number, (own, seen) in enumerate(zip(answers, self._recorded(), strict=True), start=1):
            there = np.isfinite(seen)
            both, ours, theirs = (
                float(np.sum(a[there] * b[there]))
                for a, b in ((own, seen), (own, own), (seen, seen))
            )
            unlike = 1 - both**2 / max(ours * theirs, np.finfo(float).tiny)
            size = both / max(ours, np.finfo(float).tiny)
            if size <= 0 or unlike > MOST_UNLIKE:
                yield Finding(
                    "discarded",
                    f"record {number} has another shape than what the release answers to its "
                    f"event: {100 * unlike:.0f} % of it is unlike",
                )
            if size > 0 and abs(np.log(size)) > MOST_DEVIATIONS * self.deviation:
                yield Finding(
                    "discarded",
                    f"record {number} is {size:.2g} times as large as what the release answers to "
                    f"its event, {abs(np.log(size)) / self.deviation:.1f} deviations of the noise "
                    "away",
                )

    def _residual(self) -> Iterator[Finding]:
        hz = self.controls.observed[0].trajectory.frequency_hz
        known = [place for place in self.misfit if place.whole.release is not None]
        left = np.array([place.whole.release or 0.0 for place in known]) / (1000 * hz)
        columns = [column for omega in self._recorded() for column in omega.T]
        kept = [column[np.isfinite(column)] for column in columns]
        if len(known) < len(kept) or not all(len(column) for column in kept):
            return
        size = np.array([np.sqrt(np.mean(column**2)) for column in kept])
        peak = np.array([np.abs(column).max() for column in kept])
        yield from residual_findings(left, size, peak, hz)
        share, far = float((left / np.maximum(size, 1e-300)).max()), self._far()
        if share > LEFT and far > FAR:
            yield Finding(
                "discarded",
                f"it leaves {100 * share:.0f} % of a record unexplained with factors that few "
                "grids have: the event may be another one than declared",
            )

    def _held_out(self) -> Iterator[Finding]:
        parts = [(place.held_out, place.whole) for place in self.misfit]
        hz = self.controls.observed[0].trajectory.frequency_hz
        columns: list[list[float | None]] = [
            [held and held.release for held, _ in parts],
            [whole.release for _, whole in parts],
            [held and held.unfitted for held, _ in parts],
            [held and held.frequency_response for held, _ in parts],
        ]
        if any(value is None for column in columns for value in column):
            return
        values = np.array(columns, dtype=np.float64) / (1000 * hz)
        fitted, whole, unfitted, control = np.sqrt(np.mean(values**2, axis=1)).tolist()
        yield from held_out_findings(
            fitted, whole, unfitted, control, hz, "a frequency response of one machine"
        )

    def _factors(self) -> Iterator[Finding]:
        if (far := self._far()) > FARTHEST:
            yield Finding(
                "discarded",
                "it contradicts the release: its factors together lie beyond all but "
                f"{1 - far:.0e} of what public priors allow",
            )
        for factor, own in zip(self.fitted.factors, self._priors(), strict=True):
            low, high = own.range
            if own.kind == "factor" and not low + 1e-6 < factor.x < high - 1e-6:
                words = f"{factor.title}: {factor.value:.3g} times the released value is a bound"
                yield Finding("discarded", words)
        if self.fitted.moved_back:
            yield Finding(
                "doubtful",
                f"it was moved {100 * self.fitted.moved_back:.0f} % of the way back to the "
                "release, since its model was not stable",
            )

    def _priors(self) -> Sequence[Any]:
        settings = self.controls.settings
        return factors_of(self.released, exponents=settings.exponents, items=settings.items)

    def _far(self) -> float:
        """Quantile of the factors' distance from the release, by their priors."""
        own = [
            one.x / prior.spread
            for one, prior in zip(self.fitted.factors, self._priors(), strict=True)
        ]
        return float(chi2.cdf(np.sum(np.square(own)), max(len(own), 1)))


def response_deviation(noisy: NoisyGrid[Any]) -> float:
    """Deviation of the logarithm of a response's size that the noise of a release makes: of the
    machines' inertia and the governors' gain, items' noise averaged over them.
    """
    total = 0.0
    for name in SIZED_BY:
        if name not in noisy.facts.parameters or name in noisy.allocation.published:
            continue
        loss = noisy.guarantee.groups.get(name)
        deviation = loss.noise.deviation * loss.scale if loss and loss.relative else UNDRAWN
        items = loss is not None and loss.mechanism.takes == "items"
        total += deviation**2 / (noisy.facts.sizes[name] if items else 1)
    return sqrt(total) or UNDRAWN
