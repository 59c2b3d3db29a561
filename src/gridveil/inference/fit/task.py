"""What the two stages minimise: records against a reduced model, then against a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.dynamics.engine.propagate import SchemeName
from gridveil.dynamics.engine.records import SampledRecords
from gridveil.dynamics.models import GridPorts
from gridveil.dynamics.swing import SWING, DrivenSwingFamily
from gridveil.foundation.errors import OptionError
from gridveil.grid.facts import Array, GridFacts, IntArray, complete_edges
from gridveil.grid.parameters import Bounds
from gridveil.inference.fit.coordinates import Coordinates, linked
from gridveil.inference.fit.problem import NOT_FITTED, Observation, on_clock
from gridveil.inference.fit.sampling import Sampling
from gridveil.inference.fit.sensitivity import Modes, Predictor
from gridveil.inference.fit.unknown import Unknowns


@dataclass(frozen=True, eq=False)
class Task:
    """Records and the model that is fitted to them.

    sigmas : of each record's samples [p.u.], NaN where it says none.
    """

    coordinates: Coordinates
    predictor: Predictor
    sigmas: Array

    @classmethod
    def of(
        cls,
        facts: GridFacts,
        observed: Sequence[Observation],
        bounds: Bounds,
        *,
        dt_s: float,
        scheme: SchemeName,
        reduced: bool = True,
    ) -> Task:
        """Put the observations on the fit's clock, and their events and buses on the grid's.

        reduced : whether reduced weights are to be coordinates; without, nothing is known of them.
        """
        g = len(facts.machines)
        if others := facts.sizes.keys() - set(SWING):
            raise OptionError(
                f"Records of a grid with {', '.join(sorted(others))} cannot be taken apart: only "
                "the swing model's own parameters can.",
                outcome=NOT_FITTED,
                remedy="Choose the method l-bfgs-b for a fit.",
            )
        ports = GridPorts.of(facts)
        records, loads, places = on_clock(ports, observed, dt_s)
        drive = np.zeros((len(facts.buses), loads.shape[1]))
        drive[ports.order] = loads
        unknown = Unknowns.of(observed, g, drive.sum(axis=0))
        drive[:, unknown.free] = 0.0  # nobody knows where
        outputs = np.arange(len(places))
        kept, left = places < g, places >= g
        coordinates = Coordinates(
            facts,
            drive,
            sensed=np.stack([outputs[left], places[left] - g], axis=1),
            kept=np.stack([outputs[kept], places[kept]], axis=1),
            linked=linked(facts) if reduced else np.zeros(0, dtype=np.int64),
            unknown=unknown,
        )
        family = DrivenSwingFamily(
            complete_edges(g),
            inputs=drive.shape[1],
            governor_rate=facts.governor_rate,
            droop_gain=facts.droop_gain,
            omega_b=facts.omega_b,
            sense=np.eye(g),
            bounds=bounds,
        )
        sigmas = np.array(
            [np.nan if observation.sigma is None else observation.sigma for observation in observed]
        )
        return cls(
            coordinates,
            Predictor(family, SampledRecords.of(records), dt_s=dt_s, scheme=scheme),
            sigmas,
        )

    def sigma(self, sampling: Sampling, sigma: float | Array, least: float = 0.0) -> Array:
        """Noise of each sample (rows,) [p.u.], with a floor.

        sigma : of each place of each record (r, h), or of all that do not say their own.
        """
        r, h = len(self.sigmas), self.coordinates.locations
        own = self.sigmas_or(sigma) if np.ndim(sigma) == 0 else np.asarray(sigma)
        own = np.maximum(np.broadcast_to(own, (r, h)), least)
        return np.concatenate(
            [
                np.broadcast_to(places, seen.shape)[seen]
                for places, seen in zip(own, sampling.seen, strict=True)
            ]
        )

    def sigmas_or(self, usual: float | Array) -> Array:
        """What each record says (r, 1) [p.u.], or the usual deviation."""
        return np.where(np.isnan(self.sigmas), usual, self.sigmas)[:, None]

    def spread(self, rows: Array, sampling: Sampling) -> tuple[Array, NDArray[np.bool_]]:
        """Lay rows of a sampling out over the records (r, samples, h), with 0 where nothing was
        seen, and say where that was.
        """
        found = np.zeros(self.predictor.records.observed.shape)
        there = np.zeros(found.shape, dtype=bool)
        for record, (at, seen) in enumerate(zip(sampling.at, sampling.seen, strict=True)):
            there[record, at] = seen
        found[there] = rows
        return found, there

    def compare(self, x: Array, sampling: Sampling) -> Array:
        """ω − ω̂ at x (rows,) [p.u.]."""
        delays = self.coordinates.delays(x)
        return (
            self.predictor.values(*self.coordinates.model(x), sampling, delays) - sampling.observed
        )

    def slopes(self, x: Array, sampling: Sampling) -> Array:
        """Slopes of ω − ω̂ by `Coordinates.values`, (rows, ·)."""
        theta, sense = self.coordinates.model(x)
        moving, sensed = self.coordinates.moving, self.coordinates.sensed[:, 0]
        return self.predictor.slopes(
            theta, sense, sampling, moving, sensed, self.coordinates.delays(x)
        )

    def linearised(self, x: Array, r: Array, sampling: Sampling, sigma: Array) -> Array:
        """Triangle of [slopes/σ, r] at x, with r and σ of each row.

        All places share the clock of their record's modes. Where a record is of one step and shows
        every place at every sample, that clock is made a triangle first, and the samples' slopes
        are never made.
        """
        steps = self.predictor.records.steps
        each = [record for record, _, _ in steps] == list(range(len(sampling.at)))
        whole = all(seen.size and seen.all() for seen in sampling.seen)
        if self.coordinates.unknowns.size or not each or not whole:
            J = self.slopes(x, sampling) / sigma[:, None]
            return triangle(np.concatenate([J, r[:, None]], axis=1))
        predictor, coordinates = self.predictor, self.coordinates
        (theta, sense), moving = coordinates.model(x), coordinates.moving
        left, right = predictor.family.directions(theta, moving)
        modes = Modes.of(predictor.family.lti(theta), predictor.scheme, predictor.dt_s)
        times, looked_at = sampling.after([(record, shift) for record, shift, _ in steps])
        clock, (h, g), end = modes.clock(times, sampling.stride), sense.shape, 0
        blocks, rest = [], 0.0
        for (_, _, column), (late, place) in zip(steps, looked_at, strict=True):
            own = slice(end, end + len(late) * h)
            seen, end = r[own].reshape(-1, h), own.stop
            ticks = clock[place]
            turned, width = triangle(np.concatenate([ticks, seen[late]], axis=1)), ticks.shape[1]
            rest += float((turned[width:] ** 2).sum() + (seen[~late] ** 2).sum())
            few = turned[:width, :width]
            block = np.zeros((len(few), h, len(moving) + len(coordinates.sensed) * g + 1))
            block[:, :, : len(moving)] = modes.slopes(few, sense, left, right, column)
            for number, output in enumerate(coordinates.sensed[:, 0]):
                first = len(moving) + number * g
                block[:, output, first : first + g] = modes.omega(few, g, column)
            block[:, :, :-1] /= sigma[own][:h, None]
            block[:, :, -1] = turned[:width, width:]
            blocks.append(block.reshape(-1, block.shape[-1]))
        # rows of nothing, so that triangles of models with fewer modes have as many
        last = np.zeros((blocks[0].shape[1], blocks[0].shape[1]))
        last[0, -1] = np.sqrt(rest)
        return triangle(np.concatenate([*blocks, last]))


@dataclass(frozen=True, eq=False)
class ReducedResiduals:
    """(ω − ω̂)/σ as a function of stage 1's x, with σ of each row."""

    task: Task
    sampling: Sampling
    sigma: Array

    def at(self, x: Array) -> Array:
        """Residuals (rows,)."""
        return self.task.compare(x, self.sampling) / self.sigma

    def slopes(self, x: Array) -> Array:
        """Slopes (rows, size of x)."""
        by_values = self.task.slopes(x, self.sampling) / self.sigma[:, None]
        return by_values @ self.task.coordinates.model_slopes(x)


@dataclass(frozen=True, eq=False)
class WholeResiduals(ReducedResiduals):
    """The same as a function of y = (log k, log m, log d, z), by way of x."""

    def at(self, x: Array) -> Array:
        """Residuals (rows,)."""
        return super().at(self.task.coordinates.of_network_and_machines(x))

    def slopes(self, x: Array) -> Array:
        """Slopes (rows, size of y)."""
        coordinates = self.task.coordinates
        by_theta = self.task.slopes(coordinates.of_network_and_machines(x), self.sampling)
        return by_theta @ coordinates.value_slopes(x[None])[0] / self.sigma[:, None]


@dataclass(frozen=True, eq=False)
class NetworkResiduals:
    """R (θ(y) − θ̂) + r of b searches: records linearised in θ, with θ(y) of the network exact.

    R : (b, ·, ·); r, origin θ̂ : (b, ·); y : (b, n).
    free : how many of the first entries of y = (log k, log m, log d, z) move, the others stay.
    columns : of θ that R speaks of.
    """

    coordinates: Coordinates
    R: Array
    r: Array
    origin: Array
    y: Array
    free: int
    columns: IntArray | slice

    def at(self, x: Array, which: IntArray) -> Array:
        """Residuals (·, rows of R) at the free entries of y."""
        R, r, origin = (self._of(part, which) for part in (self.R, self.r, self.origin))
        moved = self.coordinates.values_of(self._whole(x, which)) - origin
        return (R @ moved[:, self.columns, None])[..., 0] + r

    def slopes(self, x: Array, which: IntArray) -> Array:
        """Slopes (·, rows of R, free entries of y)."""
        slopes = self.coordinates.value_slopes(self._whole(x, which))
        return self._of(self.R, which) @ slopes[:, self.columns, : self.free]

    def _whole(self, x: Array, which: IntArray) -> Array:
        if self.free == self.y.shape[1]:
            return x
        return np.concatenate([x, self.y[which, self.free :]], axis=1)

    def _of(self, part: Array, which: IntArray) -> Array:
        """A part of some searches, without a copy where they are all."""
        return part if len(which) == len(part) else part[which]


def triangle(A: Array) -> Array:
    """R of A = Q R: |A x| = |R x| for every x, without squaring A's condition."""
    return np.asarray(np.linalg.qr(A, mode="r"), dtype=np.float64)
