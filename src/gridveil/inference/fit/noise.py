"""Deviation of a sample, from what a fit leaves of the records: sensor noise and model error
together.

Model error goes together over many samples, so that these count for fewer independent ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.grid.facts import Array

OF_MEDIAN = 1.4826  # deviation of a Gaussian over the median of its size
WINDOW_S = 1.0  # over which sums of the residual are compared with single samples


@dataclass(frozen=True, eq=False)
class Residue:
    """What is left of records.

    rms : (r, h) root mean square at each place of each record [p.u.]; 0 where nothing was seen.
    together : (r, h) samples that go together, and count as one; at least 1.
    """

    rms: Array
    together: Array

    @property
    def effective(self) -> Array:
        """Deviation (r, h) of a sample that counts as independent [p.u.]."""
        return self.rms * np.sqrt(self.together)


def noise_of(left: Array, seen: NDArray[np.bool_], dt_s: float) -> Residue:
    """Deviation of residuals, and how many go together.

    left : (r, samples, h) [p.u.], 0 where nothing was seen; seen : the same shape; dt_s : the clock
    [s]. The variance of sums over a window is compared with that of independent samples.
    """
    variance = np.sum(left**2, axis=1) / np.maximum(seen.sum(axis=1), 1)
    width = max(1, round(WINDOW_S / dt_s))
    r, samples, h = left.shape
    blocks = max(samples // width, 1)
    sums, counts = (
        part[:, : blocks * width].reshape(r, blocks, -1, h).sum(axis=2) for part in (left, seen)
    )
    squares = np.sum(sums**2 / np.maximum(counts, 1), axis=1) / np.maximum(
        np.sum(counts > 0, axis=1), 1
    )
    together = np.clip(
        squares / np.maximum(variance, np.finfo(float).tiny), 1.0, np.maximum(counts.max(axis=1), 1)
    )
    return Residue(np.sqrt(variance), together)


def sensor_noise(column: Array, time_s: Array | None = None) -> float:
    """Deviation of white noise on a smooth record (samples,), by how far each sample lies from the
    line through the two beside it [p.u.].

    time_s : when samples were taken, in any unit; None: evenly. NaN: not seen.
    The median is taken, so that steps and gaps do not count. A response is smooth over a few
    samples: it is nearly on that line.
    """
    seen = np.isfinite(column)
    time, value = (np.arange(len(column)) if time_s is None else time_s)[seen], column[seen]
    if len(value) < 3:
        return 0.0
    share = (time[1:-1] - time[:-2]) / (time[2:] - time[:-2])
    off = value[1:-1] - (1 - share) * value[:-2] - share * value[2:]
    own = off / np.sqrt(1 + share**2 + (1 - share) ** 2)
    return OF_MEDIAN * float(np.median(np.abs(own)))
