"""Unknown events: what the two-stage fit makes of a record whose event nobody declared, beside the known event.

The setting of benchmarks/fidelity.py, with the record of three machines alone. A size is known to 0.54–0.60 or to 0.05–2 p.u.
(it is 0.567), a time to ± 2 s. Every row has its control beside it, the same fit without the release. A demo: seeds and truth
are known.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from fidelity import CONTROL, DRAWN, ORIGIN, Row, Study, in_words
from gridveil.cases import open_grid
from gridveil.demo import PUBLIC_EVENT
from gridveil.dynamics import simulate
from gridveil.events import Event
from gridveil.fit import Observation, Unknown
from gridveil.paper.experiment import Experiment, named_transients, random_transients
from gridveil.posterior import beliefs, no_release

PLACES = ("1", "5", "13")
SIZE, NEARLY = (0.05, 2.0), (0.54, 0.60)  # public bounds of the total [p.u. power], which is 0.567
WINDOW_S, LATE_S = 2.0, 0.73  # what is known of the event's time, and how late it came [s]
ROWS = (
    ("known event", Unknown()),
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
    parser.add_argument("--sigma", type=float, nargs="*", default=[0.0, 1e-4], help="sensor noise [p.u.]; 0 is an exact record")
    parser.add_argument("--places", default=",".join(PLACES), help="buses whose frequency was recorded")
    asked = parser.parse_args()
    source, places = open_grid("ieee30"), asked.places.split(",")
    transients = [*named_transients(), *random_transients(source.facts.buses, DRAWN, seed=7)]
    study = EventStudy(Experiment(source, transients), asked.epsilon, asked.draws, asked.seed)
    rows = study.event_rows(places, asked.sigma, quiet=asked.json)
    if asked.json:
        settings = {"epsilon": str(asked.epsilon), "draws": asked.draws, "seed": asked.seed, "places": places}
        print(json.dumps(settings | {"rows": rows}, indent=2))


class EventStudy(Study):
    """The same noisy grids, with records of which less and less is known."""

    unknown = Unknown()

    def event_rows(self, places: Sequence[str], sigmas: Sequence[float], quiet: bool) -> list[Row]:
        """Measure each row and its control; print it as soon as it is there, with its median in medians of the known event."""
        facts, found = self.experiment.source.facts, []
        sizes = {"k": len(facts.edges), "m": len(facts.machines), "d": len(facts.machines)}
        control = no_release(sizes, self.experiment.profile.bounds)
        for sigma in sigmas:
            known = None
            for name, self.unknown in ROWS:
                with_release = [beliefs(one) for one in self.noisy]
                without = [control] * (-(-self.draws // CONTROL) if sigma else 1)
                told = f"{name}, {f'σ = {sigma:g}' if sigma else 'exact'}"
                for label, belief in ((told, with_release), ("  no release", without)):
                    row = self._two_stage(label, places, sigma, belief)
                    known = known or row["named"]["median"]
                    row["times_known"] = row["named"]["median"] / known
                    found.append(row)
                    if not quiet:
                        print(f"{in_words(row)}; median {row['times_known']:.3g} times the known event's", flush=True)
        return found

    def _record(self, buses: Sequence[str] | None, sigma: float, run: int) -> Observation:
        if not self.unknown.anything:
            return super()._record(buses, sigma, run)
        settings, facts = self.experiment.profile.settings, self.experiment.source.facts
        late = LATE_S + 2 * WINDOW_S if self.unknown.window_s else 0.0
        event = Event.uniform(PUBLIC_EVENT.steps[0].uniform, at_s=late)
        clean = simulate(
            self.experiment.truth, event, horizon_s=30.0 + late, dt_s=settings.dt_s, scheme=settings.scheme, buses=buses
        )
        if sigma:
            omega = clean.omega[::2]
            noise = sigma * np.random.default_rng([self.seed, run, 50]).standard_normal(omega.shape)
            clean = replace(clean, time_s=clean.time_s[::2], omega=omega + noise)
        total = PUBLIC_EVENT.steps[0].uniform * facts.loads.sum()
        total = float(np.sqrt(np.prod(self.unknown.size))) if self.unknown.size else float(total)
        machines = [facts.buses[bus] for bus in facts.machines]
        at_s = 2 * WINDOW_S if self.unknown.window_s else 0.0
        guess = Event.load(dict.fromkeys(machines, total / len(machines)), at_s=at_s)
        return Observation(guess, clean, ORIGIN, self.unknown)


if __name__ == "__main__":
    main()
