"""Whether a release can be of a grid, and a table that explains it, from public facts alone.

What an attacker who knows the topology makes of a release, and an owner who wants figures at a
release instead of a surrogate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from gridveil.adversary.attack.network import LARGEST, invert, port_patterns
from gridveil.dynamics.kron import elimination
from gridveil.foundation.errors import InputError
from gridveil.grid.facts import Array, GridFacts
from gridveil.grid.parameters import DAMPING, WEIGHT
from gridveil.grid.tables import PublicTable
from gridveil.inference.posterior import middle
from gridveil.publication.ports import port_shares
from gridveil.publication.release import Release, loaded_buses

# A release of a grid is explained by its topology to 1e-6 and better, one of another grid to some
# 10 %.
EXPLAINED = 1e-3


@dataclass(frozen=True, eq=False)
class Explained:
    """A table on a grid's topology whose Kron reduction is nearest to a release's model.

    misfit : root mean square of relative residuals of the network; None where the release shows
    none.
    doubts : why the release may be of another grid, in sentences.
    """

    table: PublicTable
    misfit: float | None
    doubts: tuple[str, ...]


def explain(facts: GridFacts, release: Release) -> Explained:
    """Find a table that explains a release: m and d as released, k by Gauss–Newton.

    Lines that the release does not fix stay near the middle of its public bounds, as all do in
    topology mode and where they are `too_many_lines`. Loads count as public if the release
    publishes them. Raises InputError where it cannot be of the grid, by public sizes.

    Privacy
    -------
    Post-processing of a release with public facts: it costs nothing.
    """
    shares, model = port_shares(facts, release), release.swing
    if facts.load_damping.any() and not release.publishes_loads:
        raise InputError(
            "the bundle withholds its loads, so it was made without load damping, and the grid is "
            "opened with some",
            expected="the grid as it was released",
            outcome="Nothing was computed.",
            remedy="Leave --load-damping out, and load_damping of a dynamics file too.",
        )
    facts = replace(facts, loads_are_public=release.publishes_loads)
    k, misfit = np.full(len(facts.edges), middle(release.bounds[WEIGHT.name])), None
    if shares is None:
        felt = facts.load_damping[facts.machines] + math.fsum(
            facts.load_damping[facts.interior]
        ) / len(model.machines)
    else:
        if len(model.machines) > 1 and not too_many_lines(facts):
            patterns = port_patterns(facts, loaded_buses(facts)) @ shares
            bounds = release.bounds[WEIGHT.name]
            inversion = invert(model, facts, bounds, patterns, stop_if_exact=True)
            k, misfit = inversion.weights, inversion.misfit
        felt = elimination(facts, k).to_machines(facts.load_damping)
    table = PublicTable(
        facts,
        {
            WEIGHT.name: k,
            **model.of_machines,
            DAMPING.name: np.maximum(model.values[DAMPING.name] - felt, 0.0),
        },
    )
    return Explained(table, misfit, doubts(facts, release, misfit))


def too_many_lines(facts: GridFacts) -> bool:
    """Whether a grid has more lines than can be won back from a release."""
    return len(facts.edges) > LARGEST


def doubts(facts: GridFacts, release: Release, misfit: float | None) -> tuple[str, ...]:
    """Say why a release may be of another grid of the same size; empty if nothing says so."""
    said = []
    if names := _differing(facts, release):
        said.append(
            f"The bundle's {' and '.join(names)} are not the grid's: it is likely of another grid, "
            "or the grid was opened with other options. Do not rely on these figures."
        )
    declared, opened = (
        (release.load_damping if release.publishes_loads else 0.0),
        facts.damping_of_load,
    )
    if (
        declared is not None
        and opened is not None
        and not math.isclose(declared, opened, rel_tol=1e-9)
    ):
        why = "" if release.publishes_loads else " (it withholds its loads)"
        said.append(
            f"The bundle was made {_damped(declared)}{why}, and the grid was opened "
            f"{_damped(opened)}: open it as it was released, with --load-damping {declared:.12g}. "
            "Do not rely on figures of d."
        )
    if misfit is not None and misfit > EXPLAINED:
        why = (
            "The fit may have moved the reduced weights off the topology, or it is"
            if release.fitted
            else "It is likely"
        )
        said.append(
            "No line weights on the grid's topology give the bundle's network; the nearest miss "
            f"it by {100 * misfit:.2g} %. {why} a bundle of another grid. Do not rely on figures "
            "of its lines."
        )
    return tuple(said)


def _damped(damping: float) -> str:
    return f"with load damping of {damping:.12g} p.u." if damping else "without load damping"


def _differing(facts: GridFacts, release: Release) -> list[str]:
    """Public quantities of a release that are not the grid's."""
    model, g = release.swing, len(facts.machines)
    public: dict[str, tuple[Array | float, Array | float]] = {
        "T": (model.governor_rate, facts.governor_rate),
        "G": (model.droop_gain, facts.droop_gain),
        "omega_b": (model.omega_b, facts.omega_b),
        "frequency": (model.frequency_hz, facts.frequency_hz),
        "base": (model.base_mva, facts.base_mva),
    }
    if release.publishes_loads:  # ports may be merged: what is elsewhere counts as a whole
        elsewhere = math.fsum(facts.loads[facts.interior])
        public["loads"] = (
            np.append(model.loads[:g], model.loads[g:].sum()),
            np.append(facts.loads[facts.machines], elsewhere),
        )
    return [
        name
        for name, (value, other) in public.items()
        if not np.allclose(value, other, rtol=1e-9, atol=1e-12)
    ]
