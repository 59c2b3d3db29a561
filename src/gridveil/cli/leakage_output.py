"""How the command leakage shows its figures on a screen."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Context
from typing import TYPE_CHECKING, Any

from gridveil.cli.output import print_table, print_text

if TYPE_CHECKING:
    from gridveil.adversary.leakage import Attacker, Leakage

COLUMNS = (
    "group",
    "bounds alone",
    "Σℓ public: bound",
    "with bounds",
    "largest μ",
    "Σℓ unknown: bound",
    "with bounds",
    "largest μ",
)


def print_leakage(name: str, found: Leakage) -> None:
    """Print the figures of a record, and what they mean."""
    from gridveil.adversary.leakage import PARAMETERS, percent

    known, unknown = found.known, found.unknown
    rows = []
    for group in PARAMETERS:
        told, open_told = known.items[group], unknown.items[group]
        rows.append(
            (
                group,
                percent(told.prior),
                _range(known, group),
                percent(told.typical),
                f"{known.mu[group].max(initial=0.0):.3g}",
                _range(unknown, group),
                percent(open_told.typical),
                f"{unknown.mu[group].max(initial=0.0):.3g}",
            )
        )
    print_table(
        f"The record {name}: {found.samples} values at {len(found.locations)} location(s), "
        f"computed at {found.origin}",
        COLUMNS,
        rows,
    )
    print_text(
        f"Rank     {known.rank} of {known.size} directions of (k, m, d) seen, {known.seen} fixed "
        f"better than by the bounds (Σℓ unknown: {unknown.seen})",
        "Reduced  without topology, Σℓ public: "
        + ", ".join(f"{group} {_spread(values)}" for group, values in known.reduced.items()),
        f"μ        {known.mu_neighbours:.3g} between neighbours ({found.rule}) here",
        f"Verdict  {found.verdict()}",
        *(f"Note     {note}" for note in found.notes),
        "",
    )


def print_joint(joint: Mapping[str, Any]) -> None:
    """Print what trajectory and release promise together, and on what condition."""
    from gridveil.workflow.leakage import OWN, SEARCHED

    print_text(
        f"Joint    if the noise is white and of the declared size, (ε + {_up(joint['epsilon_x'])}, "
        f"{joint['delta']:g}) for trajectory and release together at μ = {joint['mu']:.3g} on "
        f"{OWN}. {SEARCHED}" + (" So large an ε says nothing." if joint["epsilon_x"] > 10 else ""),
        "",
    )


def _up(epsilon: float) -> str:
    """Three digits, rounded up: what is promised must hold."""
    return f"{float(Context(prec=3, rounding=ROUND_CEILING).create_decimal(epsilon)):.3g}"


def _range(attacker: Attacker, group: str) -> str:
    """Cramér-Rao bound of a group's items, topology known: median, and how many have one at all."""
    return _spread(attacker.items[group].bound)


def _spread(values: Any) -> str:
    """Median and ends of relative deviations."""
    import numpy as np

    from gridveil.adversary.leakage import percent

    shown = [
        percent(float(value)) if np.isfinite(value) else "none"
        for value in (np.median(values), values.min(), values.max())
    ]
    return (
        shown[0] if shown[0] == shown[1] == shown[2] else f"{shown[0]} ({shown[1]} to {shown[2]})"
    )
