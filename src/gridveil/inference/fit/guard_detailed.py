"""The guard on a detailed fit: the same grades as of a swing fit, by what a detailed fit shows.

Its factors have wide priors of their own, so that a fit explains much. What the release itself says
is therefore asked first: how the unfitted model answers the recorded event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import Any

import numpy as np
from scipy.special import chdtrc

from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import Array
from gridveil.inference.fit.controls import MOST_UNITS, FitControls, answers_of, record_ports
from gridveil.inference.fit.detailed import DetailedFit, fit_detailed
from gridveil.inference.fit.factors import factors_of
from gridveil.inference.fit.guard import (
    ON_BOUNDS,
    Doubt,
    Verdict,
    held_out_findings,
    residual_findings,
    share_beyond,
)
from gridveil.inference.fit.misfit import PlaceMisfit
from gridveil.inference.fit.noise import sensor_noise
from gridveil.inference.fit.other_events import (
    LIKELIER,
    SLOWER_S,
    compared_with,
    gained,
    likeliest,
    scaled,
    slower,
)
from gridveil.inference.fit.problem import Observation
from gridveil.privacy.noisy import NoisyGrid

# What fixes the size of a response, and its deviation [of a logarithm] where nothing was drawn.
SIZED_BY, UNDRAWN = ("M", "gov_gain"), 0.5
SIZING = ("inertia", "governor_gain")  # common factors that do, too
# Good records that one check may speak of: a quarter of 2 %. Laplace noise has no heavier tail than
# P(|x| > t deviations) = exp(−√2 t), and no sum of such noises has: so many deviations may a
# record's size lie from what the release answers.
FALSE_ALARMS = 0.02 / 4
MOST_DEVIATIONS = -log(FALSE_ALARMS) / sqrt(2)
# Share of a record that no multiple of the release's answer explains. Noise alone makes up to 10 %
# in 70 draws of Kundur, a ramp for a step 13 % and more.
MOST_UNLIKE = 0.12
# Another event is tried where the release gives a reason: a step of the record's own size, so many
# deviations from what the release answers; one at the likeliest other buses, where the release
# answers more alike there, or where the fit leaves more than this share beyond the sensor's noise;
# a slower one, where it leaves more than the last. Ramps of 5 s declared as steps leave 2 % and
# more.
OTHER_SIZE, LEFT, LEFT_BY_SLOWER = 2.0, 0.03, 0.01
FARTHEST = 1e-15  # share of the factors' priors that no grid of this structure is beyond


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

    def _answer(self) -> Iterator[Doubt]:
        """The record against what the unfitted release answers: its size, its shape, its place."""
        ports = record_ports(self.released, self.controls.observed)
        model = linearise(self.released, solve(self.released), ports)
        dt_s = self.controls.settings.dt_s
        answers = answers_of(model, self.controls.observed, dt_s)
        for number, record in enumerate(self.controls.observed, start=1):
            size, unlike = compared_with(answers[number - 1], record.trajectory.omega)
            away = abs(np.log(size)) / self.deviation if size > 0 else 0.0
            words = ""
            if size <= 0 or unlike > MOST_UNLIKE:
                words = (
                    "has another shape than what the release answers to its event: "
                    f"{100 * unlike:.0f} % of it is unlike"
                )
            elif away > MOST_DEVIATIONS:
                words = (
                    f"is {size:.2g} times as large as what the release answers to its event, "
                    f"{away:.1f} deviations of the noise away"
                )
            elif away > OTHER_SIZE and self._gain(number, scaled(record, size)) > LIKELIER:
                words = f"is far likelier after an event of {size:.2g} times the declared size"
            elif self._likelier_elsewhere(number, record, model, unlike):
                words = "is far likelier after the same step at another bus"
            elif (
                self.share_left() > LEFT_BY_SLOWER
                and self._gain(number, slower(record, dt_s)) > LIKELIER
            ):
                words = (
                    f"is far likelier after a change that takes {SLOWER_S:g} s than after a step"
                )
            if words:
                yield Doubt("discarded", f"record {number} {words}")

    def _likelier_elsewhere(
        self, number: int, record: Observation, model: DetailedModel, unlike: float
    ) -> bool:
        """Whether another bus explains a record far better; unlike : of the declared one."""
        dt_s = self.controls.settings.dt_s
        tried = likeliest(record, model.ports, lambda one: answers_of(model, [one], dt_s)[0])
        if not tried or (tried[0][0] >= unlike and self.share_left() <= LEFT):
            return False
        return any(self._gain(number, moved) > LIKELIER for _, moved in tried)

    def _gain(self, number: int, other: Observation | None) -> float:
        """Gain in log-likelihood when a fit sees a record with another event [nats]; 0 where that
        takes too long.
        """
        if other is None or len(self.released.units.bus) > MOST_UNITS:
            return 0.0
        observed = list(self.controls.observed)
        observed[number - 1] = other
        ports = record_ports(self.released, observed)
        fitted = fit_detailed(self.released, ports, observed, self.controls.settings)
        dt_s = self.controls.settings.dt_s
        together = np.maximum(fitted.correlation_s, self.fitted.correlation_s) / dt_s
        gain = gained(observed, dt_s, self.fitted.sigma, fitted.sigma, together)
        return gain + self._penalty(self.fitted) - self._penalty(fitted)

    def _penalty(self, fitted: DetailedFit) -> float:
        """What priors take away for factors and discrepancies [nats]."""
        return 0.5 * float(np.sum(self._moved(fitted) ** 2) + np.sum(fitted.discrepancy**2))

    def _residual(self) -> Iterator[Doubt]:
        hz = self.controls.observed[0].trajectory.frequency_hz
        left, size, peak = self._left()
        if len(left):
            yield from residual_findings(left, size, peak, hz, self._noise())

    def _left(self) -> tuple[Array, Array, Array]:
        """Residual, root mean square and largest deviation of each place [p.u.]; none where the
        first is not known.
        """
        hz = self.controls.observed[0].trajectory.frequency_hz
        known = [place.whole.release for place in self.misfit if place.whole.release is not None]
        columns = [
            column[np.isfinite(column)]
            for record in self.controls.observed
            for column in record.trajectory.omega.T
        ]
        if len(known) < len(columns) or not all(len(column) for column in columns):
            return np.zeros(0), np.zeros(0), np.zeros(0)
        size = np.array([np.sqrt(np.mean(column**2)) for column in columns])
        peak = np.array([np.abs(column).max() for column in columns])
        return np.array(known) / (1000 * hz), size, peak

    def share_left(self) -> float:
        """Largest share of a record that the fit leaves beyond the sensor's noise."""
        left, size, _ = self._left()
        return share_beyond(left, self._noise(), size) if len(left) else 0.0

    def _noise(self) -> Array:
        """Deviation of the sensor's noise at each place [p.u.]."""
        shown = [record.trajectory for record in self.controls.observed]
        return np.array([sensor_noise(own, one.time_s) for one in shown for own in one.omega.T])

    def _held_out(self) -> Iterator[Doubt]:
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
            fitted, whole, unfitted, control, hz, "a frequency response of one machine", "doubtful"
        )

    def _factors(self) -> Iterator[Doubt]:
        if (beyond := self._beyond()) < FARTHEST:
            yield Doubt(
                "discarded",
                "it contradicts the release: its factors together lie beyond all but "
                f"{beyond:.0e} of what public priors allow",
            )
        own = list(zip(self.fitted.factors, self._priors(), strict=True))
        ends = [one for one, prior in own if prior.kind == "factor" and _on_bound(one.x, prior)]
        for factor in ends:
            if factor.name in SIZING:
                words = f"{factor.title}: {factor.value:.3g} times the released value is a bound"
                yield Doubt("discarded", words)
        if len(ends) > ON_BOUNDS * len(own):
            yield Doubt("doubtful", f"{len(ends)} of {len(own)} common factors lie on their bounds")
        if self.fitted.moved_back:
            yield Doubt(
                "doubtful",
                f"it was moved {100 * self.fitted.moved_back:.0f} % of the way back to the "
                "release, since its model was not stable",
            )

    def _priors(self) -> Sequence[Any]:
        settings = self.controls.settings
        return factors_of(self.released, exponents=settings.exponents, items=settings.items)

    def _beyond(self) -> float:
        """Share of the factors' priors that lies further from the release than the fit."""
        moved = self._moved(self.fitted)
        return float(chdtrc(max(len(moved), 1), np.sum(moved**2)))

    def _moved(self, fitted: DetailedFit) -> Array:
        """Factors (n,) of a fit in deviations of their priors."""
        own = zip(fitted.factors, self._priors(), strict=True)
        return np.array([one.x / prior.spread for one, prior in own])


def _on_bound(x: float, prior: Any) -> bool:
    low, high = prior.range
    return not low + 1e-6 < x < high - 1e-6


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
