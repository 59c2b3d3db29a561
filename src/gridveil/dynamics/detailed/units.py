"""Units of one structure, evaluated together: their equations, operating point and slopes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gridveil.dynamics.detailed.blocks import Diagram
from gridveil.dynamics.detailed.device import Parameters, Signals
from gridveil.dynamics.detailed.dual import Number, seeds
from gridveil.dynamics.detailed.numbers import Numbers, numbers_of
from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.foundation.errors import GridveilError, InputError
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import IntArray


class NoOperatingPoint(GridveilError):
    """A case whose power flow or whose devices have no operating point; it quotes no value."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            problem,
            outcome="No model was made.",
            remedy="Check the voltages, loads and dispatch of the case.",
        )


@dataclass(frozen=True, eq=False)
class Controlled:
    """The controls of a machine, of which each may be absent: then its output is a reference."""

    diagram: Diagram
    models: Mapping[str, str]
    values: Mapping[str, Parameters]

    def mechanical(self, signals: Signals) -> Number:
        """See `Controls`."""
        with self.diagram.writing("governor"):
            if "governor" not in self.models:
                return self.diagram.reference("tm", signals.power)
            return self._call("governor", signals)

    def field(self, signals: Signals, mechanical: Number) -> Number:
        """See `Controls`."""
        with self.diagram.writing("exciter"):
            if "exciter" not in self.models:
                return self.diagram.reference("vf", signals.field)
        stabiliser: Number = 0.0
        if "stabiliser" in self.models:
            with self.diagram.writing("stabiliser"):
                stabiliser = self._call("stabiliser", signals, mechanical)
        with self.diagram.writing("exciter"):
            return self._call("exciter", signals, stabiliser)

    def _call(self, role: str, *signals: Any) -> Number:
        device = DEVICES[self.models[role]]
        return device.equations(self.diagram, self.values[role], *signals)


@dataclass(frozen=True, eq=False)
class UnitGroup:
    """Units with the same devices, and with zeros in the same places.

    models : the model of each role.
    rows : (n,) for each role, its rows in the model's table.
    units : (n,) positions among the units.
    """

    models: Mapping[str, str]
    rows: Mapping[str, IntArray]
    units: IntArray
    omega_b: float

    def columns(self, numbers: Numbers) -> list[tuple[str, str]]:
        """(role, parameter) of everything that the equations may use."""
        return [(role, name) for role, model in self.models.items() for name in numbers[model]]

    def parameters(self, numbers: Numbers) -> dict[str, dict[str, Any]]:
        """The group's own parameters, (n,) each, by role."""
        return {
            role: {name: column[self.rows[role]] for name, column in numbers[model].items()}
            for role, model in self.models.items()
        }

    def diagram(
        self, parameters: Mapping[str, Mapping[str, Any]], values: Any, V: Any, power: Any
    ) -> tuple[Diagram, tuple[Number, Number]]:
        """Write the diagram once, at values by name; with the current into the network.

        V : (re, im); power : (P, Q), (…, n) each.
        """
        diagram = Diagram(values, power, self.omega_b)
        own = {role: Parameters(**columns) for role, columns in parameters.items()}
        role = "machine" if "machine" in self.models else "inverter"
        controls = Controlled(diagram, self.models, own)
        with diagram.writing(role):
            device = DEVICES[self.models[role]]
            current = device.equations(diagram, own[role], V, controls)
        return diagram, current

    def start(self, parameters: Any, V: Any, power: Any) -> tuple[Diagram, Any]:
        """Names of states and references, and guesses of both (n, k)."""
        diagram, _ = self.diagram(parameters, {}, (V[..., 0], V[..., 1]), power)
        guesses = [*diagram.states.values(), *diagram.references.values()]
        shape = V.shape[:-1]
        columns = [np.broadcast_to(np.real(guess), shape) for guess in guesses]
        return diagram, np.stack(columns, axis=-1)

    def evaluate(self, names: tuple[str, ...], parameters: Any, z: Any, V: Any) -> tuple[Any, Any]:
        """Rates and current (…, n, s + 2) at states, references z (…, n, s + 2) and V (…, n, 2),
        with their slopes by z and V, (…, n, s + 2, s + 4).
        """
        variables = seeds(np.concatenate([z, V.astype(z.dtype)], axis=-1))
        values = dict(zip(names, variables, strict=False))
        nothing = np.zeros(z.shape[:-1])
        voltage = (variables[-2], variables[-1])
        diagram, current = self.diagram(parameters, values, voltage, (nothing, nothing))
        outputs = [*(diagram.rates[name] for name in diagram.states), *current]
        shape, k = z.shape[:-1], len(variables)
        result = np.stack([np.broadcast_to(o.value, shape) for o in outputs], axis=-1)
        slopes = np.stack([np.broadcast_to(o.slopes, (*shape, k)) for o in outputs], axis=-2)
        return result, slopes

    # a step may lead to infinity: reported below
    @np.errstate(all="ignore")
    def settle(self, parameters: Any, V: Any, current: Any) -> Settled:
        """Find states and references at rest with a given current (n, 2), by Newton's method."""
        power = (
            V[..., 0] * current[..., 0] + V[..., 1] * current[..., 1],
            V[..., 1] * current[..., 0] - V[..., 0] * current[..., 1],
        )
        diagram, z = self.start(parameters, V, power)
        names = (*diagram.states, *diagram.references)
        if len(diagram.references) != 2:
            raise InputError(
                f"{', '.join(self.models.values())} have other references than two",
                expected="one for active and one for reactive power",
            )
        states, k = len(diagram.states), len(names)
        for _ in range(40):
            result, slopes = self.evaluate(names, parameters, z, V)
            result[..., states:] -= current
            if not np.isfinite(result).all():
                break
            try:
                step = np.linalg.solve(slopes[..., :k], -result[..., None])[..., 0]
            except np.linalg.LinAlgError:
                break
            z = z + step
            if np.abs(step).max(initial=0.0) <= 1e-11 * (1 + np.abs(z).max(initial=0.0)):
                slopes = self.evaluate(names, parameters, z, V)[1]
                return Settled(
                    tuple(diagram.states),
                    tuple(diagram.references),
                    tuple(diagram.angles),
                    z,
                    slopes,
                )
        raise NoOperatingPoint(
            f"Units with {', '.join(self.models.values())} have no operating point"
        )


@dataclass(frozen=True, eq=False)
class Settled:
    """A group of units at rest.

    states, references, angles : names.
    z : (n, s + 2) states, then references.
    slopes : (…, n, s + 2, s + 4) of rates and current, by states, references, V_r, V_i.
    """

    states: tuple[str, ...]
    references: tuple[str, ...]
    angles: tuple[str, ...]
    z: Any
    slopes: Any

    @property
    def names(self) -> tuple[str, ...]:
        """States, then references."""
        return (*self.states, *self.references)

    @property
    def blocks(self) -> Any:
        """Slopes without those by references: (…, n, s + 2, s + 2)."""
        s = len(self.states)
        return np.delete(self.slopes, [s, s + 1], axis=-1)


def groups_of(case: DetailedCase) -> tuple[UnitGroup, ...]:
    """Sort a case's units by structure: their devices, and which shaping parameters are zero."""
    numbers = numbers_of(case)
    keys: list[list[Any]] = [[] for _ in case.units.bus]
    held: list[dict[str, tuple[str, int]]] = [{} for _ in case.units.bus]
    for table in case.devices:
        device, columns = DEVICES[table.model], numbers[table.model]
        for row, unit in enumerate(table.unit.tolist()):
            if device.role in held[unit]:
                raise InputError(
                    f"a unit has two devices of the role {device.role}", table=table.model
                )
            held[unit][device.role] = (table.model, row)
            keys[unit].append(
                (
                    table.model,
                    *(bool(columns[name][row] == 0) for name in device.shaping),
                    *(float(columns[name][row]) for name in device.modes),
                )
            )
    members: dict[Any, list[int]] = {}
    for unit, key in enumerate(keys):
        if not {"machine", "inverter"} & set(held[unit]):
            raise InputError("a unit has neither a machine nor an inverter", row=unit)
        members.setdefault(tuple(sorted(key)), []).append(unit)
    return tuple(
        UnitGroup(
            {role: model for role, (model, _) in held[units[0]].items()},
            {role: np.array([held[unit][role][1] for unit in units]) for role in held[units[0]]},
            np.array(units),
            2 * np.pi * case.frequency_hz,
        )
        for units in members.values()
    )
