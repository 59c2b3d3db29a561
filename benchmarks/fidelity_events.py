"""Unknown events: what the two-stage fit makes of a record whose event nobody declared, beside the
known event.

The setting of benchmarks/fidelity.py, with the record of three machines alone. A size is known to
0.54–0.60 or to 0.05–2 p.u. (it is 0.567), a time to ± 2 s. Every row has its control beside it, the
same fit without the release. A demo: seeds and truth are known.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from bench_pool import resumable
from fidelity import NAMED, ORIGIN, Draw, Kind, Study, experiment, recorded, sensed
from gridveil.dynamics.events import Event
from gridveil.inference.fit import Observation, Unknown
from gridveil.workflow.demo import PUBLIC_EVENT

PLACES = ("1", "5", "13")
SIZE, NEARLY = (0.05, 2.0), (0.54, 0.60)  # public bounds of the total [p.u. power], which is 0.567
WINDOW_S, LATE_S = 2.0, 0.73  # what is known of the event's time, and how late it came [s]
KNOWN = Unknown()
ROWS = (
    ("known event", KNOWN),
    ("split unknown", Unknown(split=True)),
    ("split and time unknown", Unknown(split=True, window_s=WINDOW_S)),
    ("split unknown, size to ± 5 %", Unknown(split=True, size=NEARLY)),
    ("size and split unknown", Unknown(split=True, size=SIZE)),
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--draws", type=int, default=100, help="noisy grids a row")
    parser.add_argument("--epsilon", type=Fraction, default=Fraction(1, 2))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--sigma",
        type=float,
        nargs="*",
        default=[0.0, 1e-4],
        help="sensor noise [p.u.]; 0 is an exact record",
    )
    parser.add_argument(
        "--places", default=",".join(PLACES), help="buses whose frequency was recorded"
    )
    resumable(parser)
    asked = parser.parse_args()
    places = tuple(asked.places.split(","))
    study = EventStudy(asked.epsilon, asked.draws, asked.seed, asked.json)
    study.events(places, asked.sigma)
    if asked.json:
        settings = {
            "epsilon": str(asked.epsilon),
            "draws": asked.draws,
            "seed": asked.seed,
            "places": places,
        }
        print(json.dumps(settings | {"rows": study.found}, indent=2))


@dataclass(frozen=True)
class EventDraw(Draw):
    """One fit to a record of which less is known."""

    unknown: Unknown = KNOWN

    def record(self) -> Observation:
        """The record, with a guess of the event and what is not known of it."""
        if not self.unknown.anything:
            return recorded(self)
        facts = experiment().source.facts
        late = LATE_S + 2 * WINDOW_S if self.unknown.window_s else 0.0
        part = PUBLIC_EVENT.steps[0].uniform
        seen = sensed(self, Event.uniform(part, at_s=late), 30.0 + late)
        total = (
            float(np.sqrt(np.prod(self.unknown.size)))
            if self.unknown.size
            else float(part * facts.loads.sum())
        )
        machines = [facts.buses[bus] for bus in facts.machines]
        at_s = 2 * WINDOW_S if self.unknown.window_s else 0.0
        guess = Event.load(dict.fromkeys(machines, total / len(machines)), at_s=at_s)
        return Observation(guess, seen, ORIGIN, self.unknown)


class EventStudy(Study):
    """The same noisy grids, with records of which less and less is known."""

    def events(self, places: tuple[str, ...], sigmas: Sequence[float]) -> None:
        """Measure each row and its control, with its median in medians of the known event."""
        worst = self._L(self._measured("Laplace only", self._all("Laplace")))
        for sigma in sigmas:
            known = None
            for name, unknown in ROWS:
                told = f"{name}, {f'σ = {sigma:g}' if sigma else 'exact'}"

                def draws(
                    kind: Kind,
                    unknown: Unknown = unknown,
                    sigma: float = sigma,
                    buses: tuple[str, ...] = places,
                ) -> list[EventDraw]:
                    one = EventDraw(
                        "two-stage", self.epsilon, self.seed, 0, buses, sigma, unknown=unknown
                    )
                    return [replace(one, kind=kind, run=run) for run in range(self.draws)]

                fitted = self._measured(told, draws("two-stage"))
                alone = self._measured(
                    told + ", no release", draws("no release")[: None if sigma else 1]
                )
                alone = alone if sigma else alone * self.draws
                median = float(np.median(self._L(fitted)[:, :NAMED].mean(axis=1)))
                known = known or median
                self._add(
                    f"{told} ({median / known:.3g} × known)", fitted, worst, control=self._L(alone)
                )
                self._add("  no release", alone, worst)


if __name__ == "__main__":
    main()
