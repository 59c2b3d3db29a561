"""How far models are from the truth: RMS over all machines, and the nadir of the centre of inertia.

RMS [mHz] is over all machines that stay and all samples of 20 s. The nadir is that of the centre of
inertia, with the grid's own inertias for the truth and for every model: a model is judged by its
frequencies alone. Its error is a share of the true nadir's size [%]. Both are means over events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gridveil.dynamics.events import Event
from gridveil.dynamics.models import Model
from gridveil.dynamics.simulate import simulate
from gridveil.dynamics.trajectory import nadir
from gridveil.grid.facts import Array
from truth_cases import DT_S, HORIZON_S
from truth_runs import Truth

# What a model says of an event: ω of the truth's machines (N + 1, g) [p.u.]; columns of machines
# that left do not count.
Answer = Callable[[Truth], Array]


@dataclass(frozen=True, eq=False)
class Scores:
    """Errors of a model, event by event.

    rms_mhz, nadir_percent : (events,).
    """

    rms_mhz: Array
    nadir_percent: Array

    @property
    def rms(self) -> float:
        """Mean over the events [mHz]."""
        return float(self.rms_mhz.mean())

    @property
    def nadir(self) -> float:
        """Mean over the events [%]."""
        return float(self.nadir_percent.mean())

    def in_words(self) -> str:
        """Nadir % / RMS mHz."""
        return f"{self.nadir:.1f} / {self.rms:.1f}"


def judge_answer(answer: Answer, truths: Sequence[Truth]) -> Scores:
    """Compare answers with the truth."""
    pairs = [_errors(answer(truth), truth) for truth in truths]
    return Scores(np.array([rms for rms, _ in pairs]), np.array([low for _, low in pairs]))


def judge(
    model: Model,
    truths: Sequence[Truth],
    *,
    ports: Mapping[str, str] | None = None,
    machines: Mapping[str, str] | None = None,
) -> Scores:
    """Compare a model's answers with the truth.

    ports, machines : the model's label of each of the grid's buses where load steps, and of each
    machine's bus; None: its labels are the grid's.
    """
    return judge_answer(answers_of(model, ports=ports, machines=machines), truths)


def mean_scores(drawn: Iterable[Scores]) -> Scores:
    """Average draws, event by event."""
    every = list(drawn)
    return Scores(
        np.mean([one.rms_mhz for one in every], axis=0),
        np.mean([one.nadir_percent for one in every], axis=0),
    )


def answers_of(
    model: Model,
    *,
    ports: Mapping[str, str] | None = None,
    machines: Mapping[str, str] | None = None,
) -> Answer:
    """Answer events by simulating a model; of a trip it loses the machine's power and keeps the
    machine.
    """
    place, unit = ports or {}, machines or {}

    def answer(truth: Truth) -> Array:
        change = {place.get(bus, bus): size for bus, size in truth.change.items()}
        if truth.tripped:
            change = {unit.get(truth.tripped, truth.tripped): truth.lost.real}
        return _omega(model, change, [unit.get(bus, bus) for bus in truth.machines])

    return answer


def _omega(model: Model, change: Mapping[str, float], machines: Sequence[str]) -> Array:
    return simulate(model, Event.load(change), horizon_s=HORIZON_S, dt_s=DT_S, buses=machines).omega


def _errors(omega: Array, truth: Truth) -> tuple[float, float]:
    """RMS [mHz] and error of the nadir [%]."""
    off = (omega - truth.omega)[:, truth.staying]
    rms = 1e3 * truth.frequency_hz * float(np.sqrt(np.mean(off**2)))
    low = float(nadir(truth.time_s, truth.system_hz(omega))[0])
    return rms, 100 * abs(low - truth.nadir_hz) / abs(truth.nadir_hz)


def table(title: str, columns: Sequence[str], rows: Mapping[str, Mapping[str, Scores]]) -> str:
    """Write scores as a Markdown table, nadir % / RMS mHz; – where there is none."""
    lines = [f"| {title} | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name, scores in rows.items():
        cells = [scores[one].in_words() if one in scores else "–" for one in columns]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)
