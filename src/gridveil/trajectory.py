"""Trajectories: what `simulate` returns, and what was measured. They plot themselves and turn into tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gridveil.grid import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Rate of change of frequency is measured over half a second, as European operators do.
ROCOF_WINDOW_S = 0.5


@dataclass(frozen=True)
class Response:
    """What an engineer reads off one bus's frequency.

    nadir_hz : largest deviation from nominal, with its sign [Hz]; nadir_s : when [s];
    rocof_hz_s : steepest mean slope over 0.5 s, with its sign [Hz/s]; settling_hz : deviation it settles at [Hz].
    """

    bus: str
    nadir_hz: float
    nadir_s: float
    rocof_hz_s: float
    settling_hz: float


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Frequency deviations of some buses on an even clock; a measured one has NaN in gaps, and its clock is even to a step.

    time_s : (N + 1,) [s]; omega : (N + 1, h) [p.u. of frequency_hz]; buses : h labels; settling : steady value [p.u.].
    """

    time_s: Array
    omega: Array
    buses: tuple[str, ...]
    frequency_hz: float
    settling: float
    demo: bool = False

    @property
    def deviation_hz(self) -> Array:
        """Frequency deviation (N + 1, h) [Hz]."""
        return self.omega * self.frequency_hz

    def responses(self) -> list[Response]:
        """Nadir, rate of change and settling value of each bus."""
        hz, dt = self.deviation_hz, self.time_s[1] - self.time_s[0]
        window = max(1, round(ROCOF_WINDOW_S / dt))
        # Before the record the grid was at rest, so that it does not matter when in the record an event falls.
        at_rest = np.concatenate([np.zeros((window, hz.shape[1])), hz])
        slope = (hz - at_rest[: len(hz)]) / (window * dt)
        found = []
        for column, bus in enumerate(self.buses):
            worst = int(np.argmax(np.abs(hz[:, column])))
            steepest = int(np.argmax(np.abs(slope[:, column])))
            found.append(
                Response(
                    bus,
                    nadir_hz=float(hz[worst, column]),
                    nadir_s=float(self.time_s[worst]),
                    rocof_hz_s=float(slope[steepest, column]),
                    settling_hz=self.settling * self.frequency_hz,
                )
            )
        return found

    def to_frame(self) -> Any:
        """Return a pandas DataFrame: index time [s], one column of frequency deviation [Hz] a bus."""
        import pandas as pd

        return pd.DataFrame(self.deviation_hz, index=pd.Index(self.time_s, name="time_s"), columns=pd.Index(self.buses))

    def to_csv(self) -> str:
        """Write time [s] and frequency deviations [p.u.] as CSV text, floats in full."""
        header = ",".join(["time_s", *(f"omega_{bus}_pu" for bus in self.buses)])
        rows = (",".join(map(repr, (t, *row))) for t, row in zip(self.time_s.tolist(), self.omega.tolist(), strict=True))
        return "\n".join([header, *rows]) + "\n"

    def plot(self, path: str | None = None) -> Figure:
        """Draw the frequency of each bus; write it to path if one is given."""
        from gridveil.plot import plot_trajectory

        return plot_trajectory(self, path)
