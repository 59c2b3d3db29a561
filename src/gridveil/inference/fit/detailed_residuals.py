"""What a detailed model leaves of records: (ŷ − y(x) − Φ a) / σ, by common factors x and the
discrepancy a of every recorded bus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gridveil.dynamics.detailed.equilibrium import NoOperatingPoint
from gridveil.dynamics.detailed.family import DetailedFamily
from gridveil.dynamics.detailed.linearise import Layout, model_of
from gridveil.dynamics.detailed.trips import tripped_omega, with_active_dispatch
from gridveil.dynamics.engine import SchemeName
from gridveil.dynamics.engine.propagate import step_responses
from gridveil.dynamics.engine.records import SampledRecords
from gridveil.dynamics.events import Event
from gridveil.dynamics.models import Places, port_positions
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import Array, IntArray
from gridveil.inference.fit.factors import Factor, lever_of, theta_of
from gridveil.inference.fit.problem import Observation, as_records

STEP = 1e-30  # of a complex step
H = 1e-5  # of a central difference
SLOW_S = 5.0  # how an offset of a bus grows


@dataclass(frozen=True, eq=False)
class Prediction:
    """ω of the recorded buses as a function of x (n,).

    buses : h labels of ports; records : r of N samples at these buses, on the clock dt_s.
    tripping : events by record, where a machine leaves; reactive : whether its reactive power
    leaves too, which nobody knows of a released case.
    """

    factors: tuple[Factor, ...]
    family: DetailedFamily
    buses: tuple[str, ...]
    records: SampledRecords
    tripping: Mapping[int, Event]
    dt_s: float
    scheme: SchemeName
    reactive: bool = False

    @classmethod
    def of(
        cls,
        case: DetailedCase,
        places: Places,
        ports: IntArray,
        factors: Sequence[Factor],
        observed: Sequence[Observation],
        *,
        dt_s: float,
        scheme: SchemeName,
    ) -> Prediction:
        """Put records on a case's ports.

        places : a model of the case with these ports.
        """
        buses, records = as_records(observed, dt_s)
        events = [observation.event for observation in observed]
        # what a machine gave is no load: see `_tripped`
        loads = [replace(step, trips={}).loads(places) for event in events for step in event.steps]
        levers = [lever_of(factor, case) for factor in factors]
        family = DetailedFamily(
            case, levers, ports, np.stack(loads, axis=1), port_positions(places, buses)
        )
        tripping = {record: event for record, event in enumerate(events) if event.tripped}
        whole = SampledRecords.of(records)
        return cls(tuple(factors), family, buses, whole, tripping, dt_s, scheme)

    def at(self, x: Array) -> Array:
        """(r, N, h) [p.u.]."""
        omega = self._stepped(x)
        for record in self.tripping:
            omega[record] = self._tripped(x, record)
        return omega

    def slopes(self, x: Array) -> Array:
        """Its derivatives by x, (r, N, h, n): by a complex step, and by central differences where a
        machine leaves.
        """
        unit = np.eye(len(x))
        slopes = np.stack(
            [np.imag(self._stepped(x + 1j * STEP * own)) / STEP for own in unit], axis=-1
        )
        for record in self.tripping:
            slopes[record] = np.stack(
                [
                    (self._tripped(x + H * own, record) - self._tripped(x - H * own, record))
                    / (2 * H)
                    for own in unit
                ],
                axis=-1,
            )
        return slopes

    def _stepped(self, x: Any) -> Any:
        """Answer steps of load; a complex step passes through."""
        lti = self.family.lti(theta_of(self.factors, x))
        responses = step_responses(
            lti, self.records.inputs, self.records.samples, dt_s=self.dt_s, scheme=self.scheme
        )
        return self.records.predict(responses)

    def _tripped(self, x: Array, record: int) -> Array:
        """Answer the event of a record in which a machine leaves: (N, h)."""
        family = self.family
        at = family.at_rest(theta_of(self.factors, x))
        model = model_of(family.case, Layout.of(family.case, family.ports), at)
        return tripped_omega(
            model if self.reactive else with_active_dispatch(model),
            self.tripping[record],
            self.buses,
            [(shift, shift) for own, shift, _ in self.records.steps if own == record],
            self.records.samples,
            dt_s=self.dt_s,
            scheme=self.scheme,
        )[0]


@dataclass(frozen=True, eq=False)
class DetailedResiduals:
    """Residuals of all samples that count, in units of their deviation σ.

    sigma : (r, 1, h) or a number [p.u.].
    shapes : (r, N, h, q) low-order shapes of the discrepancy of a bus [p.u.]; their sizes a have
    the prior N(0, 1) and stand behind x.
    """

    prediction: Prediction
    sigma: Any
    shapes: Array

    @property
    def counted(self) -> Any:
        """(r, N, h) samples that were seen."""
        return self.prediction.records.weights > 0

    def at(self, x: Array) -> Array:
        """See `Residuals`; infinite where a case has no operating point."""
        n = len(self.prediction.factors)
        try:
            predicted = self.prediction.at(x[:n])
        except (NoOperatingPoint, np.linalg.LinAlgError):
            return np.full(int(self.counted.sum()), np.inf)
        off = predicted + self._discrepancy(x[n:]) - self.prediction.records.observed
        return (off / self.sigma)[self.counted]

    def slopes(self, x: Array) -> Array:
        """See `Residuals`."""
        n = len(self.prediction.factors)
        by_x = self.prediction.slopes(x[:n])
        buses = by_x.shape[2]
        by_a = np.zeros((*by_x.shape[:3], buses, self.shapes.shape[-1]))
        for bus in range(buses):
            by_a[:, :, bus, bus] = self.shapes[:, :, bus]
        whole = np.concatenate([by_x, by_a.reshape(*by_x.shape[:3], -1)], axis=-1)
        return (whole / np.asarray(self.sigma)[..., None])[self.counted]

    def _discrepancy(self, a: Array) -> Array:
        sizes = a.reshape(self.shapes.shape[2:])
        return np.einsum("rnhq,hq->rnh", self.shapes, sizes)


def discrepancy_shapes(records: SampledRecords, dt_s: float, share: float) -> Array:
    """Shapes (r, N, h, 2) of what a linear model with common factors cannot say of a bus: a part of
    its response, and an offset that grows over some seconds; both a share of the response's size.
    """
    seen = records.weights > 0
    observed = np.where(seen, records.observed, 0.0)
    smooth = _smoothed(observed, max(1, round(0.2 / dt_s)))
    size = np.sqrt(
        np.sum(observed**2, axis=1, keepdims=True) / np.maximum(seen.sum(axis=1), 1)[:, None]
    )
    rise = np.zeros_like(observed)
    time = np.arange(observed.shape[1]) * dt_s
    for r, shift, _ in records.steps:
        after = np.maximum(time - shift * dt_s, 0.0)
        rise[r] = np.maximum(rise[r], (1 - np.exp(-after / SLOW_S))[:, None])
    return share * np.stack([smooth, size * rise], axis=-1)


def _smoothed(values: Array, width: int) -> Array:
    """A running mean along the samples, so that a record's noise is not a shape."""
    kernel = np.ones(2 * width + 1) / (2 * width + 1)
    padded = np.pad(values, ((0, 0), (width, width), (0, 0)), mode="edge")
    return np.apply_along_axis(np.convolve, 1, padded, kernel, "valid")
