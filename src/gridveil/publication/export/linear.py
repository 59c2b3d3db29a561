"""A release as named matrices: x' = A x + B u, y = C x + D u, with the unit of every signal.

Modelica, FMI, CSV and other Python packages get the same system and the same names from here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.models import ReducedModel
from gridveil.foundation.errors import BundleError
from gridveil.grid.facts import Array
from gridveil.publication.export.common import MOST_STATES_EACH, NOT_WRITTEN
from gridveil.publication.release import Release

POWER, FREQUENCY, VOLTAGE = "p.u. power", "p.u. frequency", "p.u. voltage"
ANGLE, HERTZ, OTHER = "rad", "Hz", "p.u."
NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_]")
LONGEST_NAME = 60
ASK_AGAIN = "Do not use the bundle; ask its publisher for it again."


@dataclass(frozen=True)
class Signal:
    """A state, an input or an output: a name that is an identifier in every tool, its unit, and
    what it is.
    """

    name: str
    unit: str
    words: str


@dataclass(frozen=True, eq=False)
class Linear:
    """A release's linear model; every port is a place of input and of output.

    A : (n, n) [1/s]; B : (n, s), C : (h, n) and D : (h, s) in the units of the signals.
    states, inputs, outputs : no two of all these have the same name.
    """

    A: Array
    B: Array
    C: Array
    D: Array
    states: tuple[Signal, ...]
    inputs: tuple[Signal, ...]
    outputs: tuple[Signal, ...]

    @classmethod
    def of(cls, release: Release) -> Linear:
        """Take the matrices of a release's model, frequencies in Hz; angles count from the last
        machine's.
        """
        model = release.model
        if isinstance(model, DetailedModel) and len(model.states) > MOST_STATES_EACH * model.units:
            raise BundleError(
                "The model has more states than devices of gridveil have.",
                outcome=NOT_WRITTEN,
                remedy=ASK_AGAIN,
            )
        every = np.arange(len(model.ports))
        with np.errstate(all="ignore"):  # what is not finite is refused
            lti = (
                model.lti(np.eye(len(every)), every)
                if isinstance(model, ReducedModel)
                else model.whole
            )
        if not (np.isfinite(lti.F).all() and np.isfinite(lti.H).all()):
            raise BundleError(
                "The model's matrices hold a number that is not finite.",
                outcome=NOT_WRITTEN,
                remedy=ASK_AGAIN,
            )
        states, (inputs, outputs) = _states(model, lti.states), _at_ports(model)
        scale = np.array([[model.frequency_hz if y.unit == HERTZ else 1.0] for y in outputs])
        named = iter(_with_identifiers((*states, *inputs, *outputs)))
        return cls(
            lti.A,
            lti.B,
            scale * lti.C,
            scale * lti.D,
            *(tuple(next(named) for _ in kind) for kind in (states, inputs, outputs)),
        )

    def matrices(self) -> dict[str, tuple[Array, tuple[Signal, ...], tuple[Signal, ...]]]:
        """A, B, C and D, each with the signals of its rows and of its columns."""
        rows = {"A": self.states, "B": self.states, "C": self.outputs, "D": self.outputs}
        columns = {"A": self.states, "B": self.inputs, "C": self.states, "D": self.inputs}
        return {name: (getattr(self, name), rows[name], columns[name]) for name in "ABCD"}


def state_names(model: ReducedModel | DetailedModel) -> list[tuple[str, str]]:
    """Name the states and their units; only differences of angles act, so that the last machine's
    is none.
    """
    names = model.machines
    if isinstance(model, ReducedModel):
        return [
            *((f"omega_{name}", FREQUENCY) for name in names),
            *((f"delta_{name}_{names[-1]}", ANGLE) for name in names[:-1]),
            *((f"p_{name}", POWER) for name in names),
        ]
    return [
        (name, ANGLE if place in model.angles else OTHER)
        for place, name in enumerate(model.states)
        if place != model.angles[-1]
    ]


def _states(model: ReducedModel | DetailedModel, count: int) -> list[Signal]:
    found = [Signal(f"x_{name}", unit, name) for name, unit in state_names(model)]
    return found + [
        Signal(f"x_device_{number}", OTHER, f"state {number} of devices at the machines")
        for number in range(1, count - len(found) + 1)
    ]


def _at_ports(model: ReducedModel | DetailedModel) -> tuple[list[Signal], list[Signal]]:
    """Inputs and outputs, in the order of the matrices."""
    ports = model.ports
    outputs = [Signal(f"f_{port}", HERTZ, f"frequency deviation at {port}") for port in ports]
    if isinstance(model, ReducedModel):
        return [Signal(f"P_{port}", POWER, f"load added at {port}") for port in ports], outputs
    inputs = [
        Signal(f"{letter}_{port}", POWER, f"{kind} power added to the load at {port}")
        for letter, kind in (("P", "active"), ("Q", "reactive"))
        for port in ports
    ]
    voltages = [Signal(f"v_{port}", VOLTAGE, f"deviation of |V| at {port}") for port in ports]
    return inputs, outputs + voltages


def identifiers(names: Iterable[str]) -> list[str]:
    """Make names that are identifiers in C, Modelica and XML, no two alike whatever came in.

    Ours begin with a letter and a line below, so that none is a word of a language.

    >>> identifiers(["x_G1 machine.e1q", "x_G1_machine_e1q", 'P_"; end', "P_é"])
    ['x_G1_machine_e1q', 'x_G1_machine_e1q_2', 'P____end', 'P__']
    """
    taken: dict[str, int] = {}
    for name in names:
        plain = NOT_IN_A_NAME.sub("_", name)[:LONGEST_NAME]
        free, number = plain, taken.get(plain, 0)
        while free in taken:
            number += 1
            free = f"{plain}_{number}"
        taken[plain] = max(number, 1)
        taken.setdefault(free, 1)
    return list(taken)


def _with_identifiers(signals: Iterable[Signal]) -> list[Signal]:
    listed = list(signals)
    names = identifiers(signal.name for signal in listed)
    return [replace(one, name=name) for name, one in zip(names, listed, strict=True)]
