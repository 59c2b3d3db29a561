"""What an ε would mean to a detailed release: seeded releases of the grid's own structure with
public values in place of its own, compared with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic

import numpy as np

from gridveil.dynamics.detailed.entries import entries_of
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.detailed.projection import project
from gridveil.dynamics.metrics import compare, read
from gridveil.dynamics.simulate import simulate
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import Array
from gridveil.grid.tables import Values
from gridveil.workflow.plan_detailed import DT_S, HORIZON_S, load_steps

# Draws at most, and the least where they take longer than so many seconds.
DRAWS, LEAST_DRAWS, LONG_S = 20, 5, 10.0


@dataclass(frozen=True)
class DetailedErrors:
    """Errors of seeded releases of a surrogate, (draws,) each: means over the events of their
    sizes. reference_mhz : the surrogate's own nadir, a mean likewise.
    """

    nadir_mhz: Array
    rocof_mhz_s: Array
    settling_mhz: Array
    reference_mhz: float


def public_table(facts: DetailedFacts) -> dict[str, Array]:
    """Entries of the public values that stand in place of the grid's own, by parameter."""
    return {name: values for name, (values, _) in entries_of(facts.public).items()}


def detailed_errors(
    facts: DetailedFacts, draws: Iterator[Values], goes_on: Callable[[], bool]
) -> DetailedErrors | None:
    """Make a release of each draw of the public table, as one is made of a private table, and
    compare it with the model of the table itself, after steps of load at single buses.

    draws : estimates of the entries behind each.
    goes_on : whether anyone still waits for it; None is returned where nobody does.
    """
    if not goes_on():
        return None
    reference, models, begun = (
        _model(facts, public_table(facts)),
        list[DetailedModel](),
        monotonic(),
    )
    for values in draws:
        models.append(_model(facts, values))
        if not goes_on():
            return None
        late = monotonic() - begun > LONG_S
        if len(models) >= (LEAST_DRAWS if late else DRAWS):
            break
    events = load_steps(reference)
    off = compare(models, reference, events, horizon_s=HORIZON_S, dt_s=DT_S)
    runs = [(simulate(reference, one, horizon_s=HORIZON_S, dt_s=DT_S), one) for one in events]
    nadirs = [read(run, reference, event).nadir_hz for run, event in runs]
    return DetailedErrors(
        *(np.abs(one).mean(axis=-1) for one in (off.nadir_mhz, off.rocof_mhz_s, off.settling_mhz)),
        reference_mhz=1e3 * float(np.mean(nadirs)),
    )


def _model(facts: DetailedFacts, values: Values) -> DetailedModel:
    projected = project(facts.public, values)
    return linearise(projected.case, projected.equilibrium, projected.case.loads.bus)
