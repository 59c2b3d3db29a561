"""Blocks of a control diagram: lag, lead-lag, washout, integrator, and second-order filters.

A device's equations draw on a `Diagram`: it hands out states and references in the order in which
they are asked for, and collects the rates. A time constant of zero makes a block without a state.
Then all devices of one call must have that zero; the network's groups see to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gridveil.dynamics.detailed.dual import Dual, Number


@dataclass(eq=False)
class Diagram:
    """The diagram of one unit, vectorised over units of one structure.

    values : states and references by name, as duals; empty on the first pass, which takes each at
    its guess and so learns names and a start.
    power : (P, Q) that the unit generates at the operating point [p.u.], for guesses alone.
    omega_b : nominal frequency [rad/s].
    role : of the device that is being written; it stands before the names.
    states, references : what was asked for, with guesses.
    rates : dx/dt of each state.
    limits : value, lower and upper bound of every limiter.
    angles : states that turn with the whole system.
    """

    values: Mapping[str, Dual]
    power: tuple[Any, Any]
    omega_b: float
    role: str = ""
    states: dict[str, Any] = field(default_factory=dict)
    references: dict[str, Any] = field(default_factory=dict)
    rates: dict[str, Number] = field(default_factory=dict)
    limits: dict[str, tuple[Number, Any, Any]] = field(default_factory=dict)
    angles: list[str] = field(default_factory=list)

    @contextmanager
    def writing(self, role: str) -> Iterator[None]:
        """Write a device of some role within a block."""
        before, self.role = self.role, role
        yield
        self.role = before

    def state(self, name: str, guess: Number, *, angle: bool = False) -> Number:
        """Hand out a state; its rate must be said later."""
        name = f"{self.role}.{name}"
        self.states[name] = guess
        if angle:
            self.angles.append(name)
        return self.values.get(name, guess)

    def reference(self, name: str, guess: Number) -> Number:
        """Hand out a constant that the operating point decides, such as a voltage reference."""
        name = f"{self.role}.{name}"
        self.references[name] = guess
        return self.values.get(name, guess)

    def rate(self, name: str, value: Number) -> None:
        """Say the derivative of a state by time [1/s]."""
        self.rates[f"{self.role}.{name}"] = value

    def limited(self, name: str, y: Number, lower: Any, upper: Any) -> Number:
        """Pass a signal through a limiter; a linear model only notes where it stands."""
        self.limits[f"{self.role}.{name}"] = (y, lower, upper)
        return y

    def lag(self, name: str, u: Number, T: Any, K: Number = 1.0) -> Number:
        """Y = K u / (1 + s T)."""
        if _is_zero(T):
            return K * u
        y = self.state(name, K * u)
        self.rate(name, (K * u - y) / T)
        return y

    def lead_lag(self, name: str, u: Number, lead: Any, T: Any) -> Number:
        """Y = u (1 + s lead) / (1 + s T); without T it passes its input on."""
        if _is_zero(T):
            return u
        x = self.state(name, u)
        self.rate(name, (u - x) / T)
        return x + (u - x) * (lead / T)

    def washout(self, name: str, u: Number, K: Any, T: Any) -> Number:
        """Y = s K u / (1 + s T); nothing where T is zero."""
        if _is_zero(T):
            return 0.0 * u
        x = self.state(name, u)
        self.rate(name, (u - x) / T)
        return (u - x) * (K / T)

    def integrator(self, name: str, u: Number, T: Any, guess: Number) -> Number:
        """Y = u / (s T)."""
        y = self.state(name, guess)
        self.rate(name, u / T)
        return y

    def second_order(self, name: str, u: Number, a: tuple[Any, Any], b: tuple[Any, Any]) -> Number:
        """Y = u (1 + b₁ s + b₂ s²) / (1 + a₁ s + a₂ s²); of first order, or none, where a is zero.

        A numerator of higher order than the denominator passes as far as it is proper.
        """
        (a1, a2), (b1, b2) = a, b
        if _is_zero(a2):
            return self.lead_lag(name, u, b1, a1)
        # controllable form: x₂ = u / (1 + a₁ s + a₂ s²), x₁ = s x₂
        x1, x2 = self.state(f"{name}_1", 0.0 * u), self.state(f"{name}_2", u)
        curve = (u - x2 - a1 * x1) / a2
        self.rate(f"{name}_1", curve)
        self.rate(f"{name}_2", x1)
        return x2 + b1 * x1 + b2 * curve


def _is_zero(T: Any) -> bool:
    return bool(np.all(np.real(T) == 0))
