"""A release with detailed devices: what its bundle shows beside the linear model, under neutral
names, and what a recipient can compute again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import isclose
from typing import Literal

import numpy as np

from gridveil.dynamics.detailed.arrays import CaseSizes, from_arrays, to_arrays
from gridveil.dynamics.detailed.entries import entries_of, released_case
from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.linearise import inertia_of, linearise
from gridveil.dynamics.detailed.model import MATRICES, DetailedModel
from gridveil.dynamics.detailed.projection import RUNGS, Rung
from gridveil.dynamics.detailed.trips import with_active_dispatch
from gridveil.dynamics.detailed.typical import public_case
from gridveil.foundation.errors import GridveilError
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import Array
from gridveil.grid.parameters import DETAILED, Bounds, parameters_of
from gridveil.inference.fit.misfit import mismatches
from gridveil.privacy.guarantee import Guarantee
from gridveil.publication.release import COMMON_FACTORS, FitSummary
from gridveil.publication.schema import (
    CaseDocument,
    DetailedDocument,
    DeviceDocument,
    ModelDocument,
)

Form = Literal["reduced", "network"]
FORMS: Mapping[Form, str] = {
    "reduced": "The units with their devices on the network reduced to their buses. Loads behind "
    "them are constant impedances there, and limits act; the linear model has the loads as "
    "declared, and no limits.",
    "network": "The whole released case: its topology and its number of buses show. The linear "
    "model is this case's, reduced to units and loaded buses, without limits.",
}
EQUATIONS = (
    "x' = A x + B u, y = C x + D u, all as deviations from the operating point",
    "u = (P, Q) consumed at the ports beyond the loads",
    "y = (speed of the units and frequency at the other ports, then voltage at the ports)",
)
SIGN_CONVENTION = (
    "More load (u > 0) lowers the frequency. A turn of all angles moves nothing: A has one "
    "structural zero."
)
UNITS: Mapping[str, str] = {
    "A": "1/s",
    "B": "1/s per p.u. power of base_mva",
    "C": "p.u. of frequency_hz, then p.u. voltage",
    "D": "p.u. of frequency_hz, then p.u. voltage, per p.u. power",
    "given": "p.u. power of base_mva: P, then Q, of each unit, by x",
    "given_through": "p.u. power per p.u. power",
    "dispatch": "p.u. power of base_mva: P, then Q, of each unit at rest",
    "turn, turn_through": "s: angle of each port's voltage over omega_b, by x and by u",
    "loads": "p.u. power of base_mva",
    "inertia": "p.u. power of base_mva * s / p.u. frequency",
    "omega": "p.u. of frequency_hz",
    "omega_b": "rad/s",
    "time": "s",
    "branch_r, branch_x, branch_b, shunt_g, shunt_b": "p.u. of base_mva",
    "branch_shift": "rad",
    "load_p, load_q, unit_p": "p.u. power of base_mva",
    "unit_v": "p.u. voltage",
    "branch_from, branch_to, load_bus, unit_bus": "buses, from 1",
    "parameters of devices": "p.u. of base_mva, and s",
}
VALID_FOR = (
    "frequency and voltage response of the units and loaded buses to lasting steps of load or "
    "generation"
)
NOT_VALID_FOR = (
    "protection, flows on single lines, and, in the linear model, faults and deviations so large "
    "that limits act"
)
# Eigenvalues this far right of the axis are what rounding leaves of the structural zero [1/s].
UNSTABLE = 1e-6
# Of figures that are computed twice, relative.
ROUNDING = 1e-9
# Dispatch is scaled to load and losses, so that it may leave its bounds.
RESCALED = ("p_gen",)
NOT_MOVED = "Nothing was moved: the released values give a stable model."
MOVED, OF_THE_WAY = (
    "Moved toward public values, for the model to be stable: ",
    " of the way",
)
SHARE = re.compile(r"[01]|0\.[0-9]{1,6}")
# What each rung of projection moves, in words.
RUNG_WORDS: Mapping[Rung, str] = {
    **{rung: ", ".join(names) for rung, names in RUNGS.items()},
    "classical": "damping of classical machines, raised",
    "droops": "governor gain, shared out by dispatch",
    "set points": "voltage set points, raised",
    "dispatch": "dispatch, brought nearer to the loads",
    "damping": "damping of other machines, raised",
    "load": "load and dispatch, lowered together",
}


@dataclass(frozen=True, eq=False)
class Shown:
    """What a detailed release shows beside its linear model.

    case : under neutral names: units G1, G2, …, buses B1, B2, ….
    form : whether that is the reduced or the whole released network.
    moved : how far released values were moved toward public ones, 0 to 1.
    moved_words : which ones.
    """

    case: DetailedCase
    form: Form
    moved: float
    moved_words: str


def moved_words(shares: Mapping[Rung, float]) -> str:
    """Say what projection moved, and how far.

    shares : of each rung, from 0 to 1.
    """
    moved = [
        f"{RUNG_WORDS[rung]}: {shares[rung]:.3g}{OF_THE_WAY}" for rung in RUNGS if shares.get(rung)
    ]
    return f"{MOVED}{'; '.join(moved)}." if moved else NOT_MOVED


def neutral_model(model: DetailedModel) -> DetailedModel:
    """Rename ports and states: G1 … for units, L1 … for other ports; no reactive power leaves with
    a unit.
    """
    ports = (
        *(f"G{n + 1}" for n in range(model.units)),
        *(f"L{n + 1}" for n in range(len(model.ports) - model.units)),
    )
    names = dict(zip(model.ports, ports, strict=True))
    states = (state.rsplit(" ", 1) for state in model.states)
    return replace(
        with_active_dispatch(model),
        ports=ports,
        states=tuple(f"{names[port]} {state}" for port, state in states),
    )


def neutral_case(case: DetailedCase) -> DetailedCase:
    """Rename buses to B1, B2, …, and the case itself."""
    return replace(case, name="release", buses=tuple(f"B{n + 1}" for n in range(len(case.buses))))


def arrays_of(model: DetailedModel, shown: Shown) -> dict[str, Array]:
    """All arrays of a bundle, by name, in the order of files."""
    return model.arrays | to_arrays(shown.case)


def shapes_of(model: ModelDocument) -> dict[str, tuple[int, ...]]:
    """Name the arrays of a bundle, with their shapes, by what its document counts."""
    detailed = model.detailed
    assert detailed is not None, "a document of a detailed release"
    machines = len(model.machines)
    ports = machines + len(model.loaded_buses)
    matrices = DetailedModel.shapes(len(detailed.states), ports, machines)
    return matrices | _layout(detailed.case).shapes()


def detailed_document(model: DetailedModel, shown: Shown) -> DetailedDocument:
    """Describe what is beside the matrices."""
    layout = CaseSizes.of(shown.case)
    return DetailedDocument(
        states=model.states,
        angles=model.angles,
        case=CaseDocument(
            form=shown.form,
            buses=layout.buses,
            branches=layout.branches,
            loads=layout.loads,
            units=layout.units,
            slack=layout.slack,
            devices=tuple(
                DeviceDocument(model=device, count=count)
                for device, count in layout.devices.items()
            ),
            words=FORMS[shown.form],
        ),
        moved=shown.moved,
        moved_words=shown.moved_words,
    )


def read_detailed(
    document: ModelDocument, arrays: Mapping[str, Array]
) -> tuple[DetailedModel, Shown]:
    """Build the model and what is shown beside it from a document and its arrays."""
    detailed = document.detailed
    assert detailed is not None, "a document of a detailed release"
    model = DetailedModel(
        ports=document.machines + document.loaded_buses,
        units=len(document.machines),
        states=detailed.states,
        angles=detailed.angles,
        frequency_hz=document.frequency_hz,
        base_mva=document.base_mva,
        **{name: arrays[name] for name in MATRICES},
    )
    case = from_arrays(
        arrays,
        _layout(detailed.case),
        name="release",
        buses=tuple(f"B{n + 1}" for n in range(detailed.case.buses)),
        base_mva=document.base_mva,
        frequency_hz=document.frequency_hz,
    )
    return model, Shown(case, detailed.case.form, detailed.moved, detailed.moved_words)


def _layout(case: CaseDocument) -> CaseSizes:
    devices = {device.model: device.count for device in case.devices}
    return CaseSizes(case.buses, case.branches, case.loads, case.units, case.slack, devices)


def detailed_problems(model: DetailedModel, shown: Shown) -> Iterator[str]:
    """A model that is finite and stable, and a case that it is the linear model of, where that case
    is whole.
    """
    if not all(np.isfinite(values).all() for values in arrays_of(model, shown).values()):
        yield "its model holds a number that no release has"
        return
    if len(shown.case.units.bus) != model.units or shown.case.units.slack >= model.units:
        yield "its case has other units than its model"
        return
    if not model.angles or max(model.angles) >= len(model.states):
        yield "its model names angles that are not there"
        return
    if np.linalg.eigvals(model.whole.A).real.max() > UNSTABLE:
        yield "its model is not stable"
    if not np.allclose(model.inertia, inertia_of(shown.case), rtol=ROUNDING, atol=0):
        yield "the inertia of its model is not its case's"
    yield from _moved_problems(shown)
    if shown.form == "network":
        yield from _case_problems(model, shown.case)


def _moved_problems(shown: Shown) -> Iterator[str]:
    """Words that projection does not give, or that speak of another share than the largest."""
    rungs: dict[str, Rung] = {words: rung for rung, words in RUNG_WORDS.items()}
    shares: dict[Rung, float] = {}
    if shown.moved_words != NOT_MOVED:
        for part in shown.moved_words.removeprefix(MOVED).removesuffix(".").split("; "):
            words, _, share = part.removesuffix(OF_THE_WAY).rpartition(": ")
            if words not in rungs or not SHARE.fullmatch(share):
                yield "its words on what was moved are none that gridveil writes"
                return
            shares[rungs[words]] = float(share)
    largest = max(shares.values(), default=0.0)
    if moved_words(shares) != shown.moved_words or f"{shown.moved:.3g}" != f"{largest:.3g}":
        yield "how far its values were moved is not what its words say"


def drawn_problems(
    shown: Shown, guarantee: Guarantee, bounds: Bounds, *, fitted: bool
) -> Iterator[str]:
    """What a table's entries must be as the shown case has them: all of a whole network, those of
    devices where it is reduced.

    A fit, or a projection, may leave them anywhere but in kind and number.
    """
    entries = {
        name: values
        for name, (values, _) in entries_of(shown.case).items()
        if len(values) and (shown.form == "network" or _of_devices(name))
    }
    seen = [n for n in guarantee.parameters if shown.form == "network" or _of_devices(n)]
    if set(entries) != set(seen):
        yield "its case has other entries than its guarantee speaks of"
        return
    for name, count in guarantee.means.items():
        if name in entries and count != len(entries[name]):
            yield f"the mean of {name} is over another number of entries than its case has"
    if fitted or shown.moved:
        return
    again = released_case(public_case(shown.case), entries)
    for own, typical in zip(shown.case.devices, again.devices, strict=True):
        for name, values in typical.values.items():
            if not np.allclose(own.values[name], values, rtol=ROUNDING, atol=0):
                yield f"{own.model}.{name} of its case was not drawn, and is not typical"
                return
    for name, loss in guarantee.groups.items():
        if name not in entries:
            continue
        values, public = entries[name], bounds[name]
        size = np.abs(values).max()
        if loss.mechanism.takes == "mean" and np.ptp(values) > ROUNDING * size:
            yield f"{name} of its case differs, where the mean alone was drawn"
        if name not in RESCALED and (
            values.min() < public.lower - ROUNDING * size
            or values.max() > public.upper + ROUNDING * size
        ):
            yield f"{name} of its case lies outside its public bounds"
    known = {*guarantee.groups, *guarantee.published}
    if undrawn := [name for name in entries if name not in known]:
        usual = entries_of(public_case(shown.case))
        for name in undrawn:
            if not np.allclose(entries[name], usual[name][0], rtol=ROUNDING, atol=0):
                yield f"nothing was drawn of {name}, and it is not typical"


def misfit_problems(fitted: FitSummary, records: int, frequency_hz: float) -> Iterator[str]:
    """Places that are not numbered as records have them, and figures that are not those of the
    mismatch.

    records : how many trajectories the fit used.
    """
    if fitted.method != COMMON_FACTORS:
        yield "fit speaks of controls, which only a detailed fit has"
    numbers = [(place.record, place.place) for place in fitted.misfit]
    counts = Counter(record for record, _ in numbers)
    expected = [
        (record, place)
        for record in range(1, records + 1)
        for place in range(1, max(counts[record], 1) + 1)
    ]
    if numbers != expected:
        yield "fit.misfit does not name places of the trajectories, one after the other"
    stated = (fitted.mismatch_before, fitted.mismatch_after)
    derived = mismatches(fitted.misfit, frequency_hz)
    for said, own in zip(stated, derived, strict=True):
        if own is not None and not isclose(said, own, rel_tol=ROUNDING):
            yield "fit.misfit is not what its mismatch says"


def _of_devices(name: str) -> bool:
    """Whether a parameter is of a unit's devices, which a reduced case still has."""
    return parameters_of(DETAILED)[name].asset == "machine" and name not in RESCALED


def _case_problems(model: DetailedModel, case: DetailedCase) -> Iterator[str]:
    """Linearise a whole case again: it must give the model's matrices, to eight digits."""
    try:
        again = with_active_dispatch(linearise(case, solve(case), case.loads.bus))
    except (GridveilError, ArithmeticError, ValueError, np.linalg.LinAlgError):
        yield "its case has no operating point"
        return
    for name in MATRICES:
        stated, derived = getattr(model, name), getattr(again, name)
        if stated.shape != derived.shape or not np.allclose(
            stated, derived, rtol=1e-8, atol=1e-8 * np.abs(derived).max()
        ):
            yield f"{name} of its model is not what its case gives"
            return
