"""A release as tables of pandas: its machines and its lines, units in `attrs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gridveil.dynamics.models import ReducedModel
from gridveil.grid.parameters import REDUCED_WEIGHT
from gridveil.publication.document import model_units

if TYPE_CHECKING:
    import pandas as pd

    from gridveil.grid.case import DetailedCase
    from gridveil.publication.release import Release


def machines_frame(release: Release) -> pd.DataFrame:
    """One row a machine, by its public name.

    Of a swing model, its parameters; of a detailed one, inertia and what the unit gives.
    """
    model = release.model
    if isinstance(model, ReducedModel):
        names = (*model.of_machines, "governor_rate", "droop_gain")
        columns = {name: model.arrays[name] for name in names}
        return _frame(columns, model.machines, {name: model_units()[name] for name in names})
    columns = {"inertia": model.inertia}
    units = {"inertia": "p.u. power * s / p.u. frequency"}
    if model.can_trip:
        columns["p_gen"], units["p_gen"] = model.dispatch[: model.units], "p.u. power"
    return _frame(columns, model.machines, units)


def lines_frame(release: Release) -> pd.DataFrame:
    """One row a line of what is released: of a swing model, each pair of machines; of a detailed
    one, the lines of the case that it shows.
    """
    model = release.model
    if isinstance(model, ReducedModel):
        weight = REDUCED_WEIGHT.name
        names = [[model.machines[end] for end in ends] for ends in model.edges.T]
        columns = {"from": names[0], "to": names[1], weight: model.values[weight]}
        return _frame(columns, None, {weight: model_units()[weight]})
    return _case_lines(release.shown.case if release.shown else None)


def _case_lines(case: DetailedCase | None) -> pd.DataFrame:
    units = {"r": "p.u.", "x": "p.u.", "b": "p.u."}
    if case is None:
        return _frame({name: [] for name in ("from", "to", *units)}, None, units)
    own = case.branches
    start, end = ([case.buses[bus] for bus in ends] for ends in own.ends.T)
    series = {"r": own.series.real, "x": own.series.imag, "b": own.charging}
    return _frame({"from": start, "to": end, **series}, None, units)


def _frame(columns: dict[str, Any], index: Any, units: dict[str, str]) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(columns, index=None if index is None else pd.Index(index, name="machine"))
    frame.attrs["units"] = units
    return frame
