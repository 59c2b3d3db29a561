"""Truth: what ANDES's nonlinear simulation says, kept in a cache."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.dynamics.trajectory import nadir
from gridveil.grid.facts import Array
from truth_cases import (
    CASES,
    DT_S,
    HORIZON_S,
    SHARES,
    SPREAD,
    SPREAD_SEED,
    Bar,
    LoadKind,
    LoadStep,
    Trip,
    TruthCase,
    case_file,
)

CHILD = Path(__file__).with_name("truth_child.py")


@dataclass(frozen=True, eq=False)
class Truth:
    """What the grid does after an event.

    time_s : (N + 1,) from the event on [s]; omega : (N + 1, g) deviations [p.u.].
    machines : their buses; inertia : (g,) M on the system base.
    change : added load by bus [p.u.]; lost : P + jQ of the machine that left [p.u.], else 0;
    tripped : its bus, else empty.
    """

    time_s: Array
    omega: Array
    machines: tuple[str, ...]
    inertia: Array
    frequency_hz: float
    base_mva: float
    change: Mapping[str, float]
    lost: complex = 0j
    tripped: str = ""

    @cached_property
    def staying(self) -> NDArray[np.bool_]:
        """(g,) whether each machine is still there after the event."""
        return np.array([bus != self.tripped for bus in self.machines])

    def system_hz(self, omega: Array) -> Array:
        """Weigh frequencies (N + 1, g) [p.u.] by the true inertias of the machines that stay: the
        centre of inertia's (N + 1,) [Hz].
        """
        weight = self.inertia * self.staying
        return self.frequency_hz * (omega[:, self.staying] @ weight[self.staying]) / weight.sum()

    @cached_property
    def nadir_hz(self) -> float:
        """Largest deviation of the centre of inertia, with its sign [Hz]."""
        return float(nadir(self.time_s, self.system_hz(self.omega))[0])


class Runs:
    """The truth of the cases, simulated where the cache does not hold it yet."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache.resolve()
        self._held: dict[tuple[str, LoadKind, str], Truth] = {}

    def truth(self, case: str, kind: LoadKind, event: str) -> Truth:
        """What the grid does after one event."""
        key = (case, kind, event)
        if key not in self._held:
            self.prepare([(case, kind)], [event])
            self._held[key] = self._read(self._place(*key), CASES[case].events[event])
        return self._held[key]

    def andes_dump(self, case: str, kind: LoadKind) -> dict[str, Any]:
        """The case after its power flow as plain data: tables by model, in p.u. of the system
        base.
        """
        path = self._place(case, kind, "dump", ".json")
        if not path.exists():
            self._run(CASES[case], kind, {}, path, Bar(1))
        return json.loads(path.read_text())

    def prepare(
        self, grids: Iterable[tuple[str, LoadKind]], events: Iterable[str] | None = None
    ) -> None:
        """Simulate what the cache lacks; events : their names, default all of each case."""
        wanted = None if events is None else list(events)
        missing: dict[tuple[str, LoadKind], list[str]] = {
            (case, kind): [
                name
                for name in (wanted or CASES[case].events)
                if not self._place(case, kind, name).exists()
            ]
            for case, kind in grids
        }
        bar = Bar(sum(map(len, missing.values())))
        for (case, kind), names in missing.items():
            if names:
                jobs = {name: CASES[case].events[name] for name in names}
                self._run(CASES[case], kind, jobs, None, bar)

    def _place(self, case: str, kind: LoadKind, event: str, suffix: str = ".npz") -> Path:
        """A file named after all that it depends on, so that a changed event is simulated anew."""
        told = _described(CASES[case].events[event]) if event in CASES[case].events else {}
        settings = [CASES[case].file, SHARES[kind], told, HORIZON_S, DT_S]
        if CASES[case].spread:
            settings += [SPREAD, SPREAD_SEED]
        digest = hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:8]
        return self.cache / f"{case}-{kind}-{event}-{digest}{suffix}"

    def _run(
        self,
        case: TruthCase,
        kind: LoadKind,
        events: Mapping[str, LoadStep | Trip],
        dump: Path | None,
        bar: Bar,
    ) -> None:
        """Run ANDES in a child with a home of its own: it writes generated code there."""
        home = self.cache / "home"
        home.mkdir(parents=True, exist_ok=True)
        job = {
            "file": str(case_file(case, self.cache)),
            "shares": SHARES[kind],
            "horizon_s": HORIZON_S,
            "dt_s": DT_S,
            "dump": str(dump or ""),
            "events": {
                name: _described(event) | {"to": str(self._place(case.name, kind, name))}
                for name, event in events.items()
            },
        }
        with tempfile.NamedTemporaryFile("w", suffix=".json", dir=self.cache) as asked:
            json.dump(job, asked)
            asked.flush()
            child = subprocess.Popen(
                [sys.executable, str(CHILD), asked.name],
                cwd=home,
                env=os.environ | {"HOME": str(home)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert child.stdout is not None and child.stderr is not None
            done = {*events, "dump"}
            for line in child.stdout:
                if line.strip() in done:
                    bar.step(f"{case.name}, {kind} loads, {line.strip()}")
            said = child.stderr.read()
            if child.wait():
                raise RuntimeError(f"ANDES failed on {case.name}, {kind} loads: {said[-800:]}")

    def _read(self, path: Path, event: LoadStep | Trip) -> Truth:
        with np.load(path) as file:
            return Truth(
                file["time_s"],
                file["omega"],
                tuple(file["machines"].tolist()),
                file["inertia"],
                float(file["frequency_hz"]),
                float(file["base_mva"]),
                dict(zip(file["buses"].tolist(), file["change"].tolist(), strict=True))
                if isinstance(event, LoadStep)
                else {},
                complex(file["lost"]),
                event.bus if isinstance(event, Trip) else "",
            )


def _described(event: LoadStep | Trip) -> dict[str, Any]:
    if isinstance(event, Trip):
        return {"kind": "trip", "buses": [event.bus]}
    return {"kind": "step", "buses": list(event.buses), "share": event.share}
