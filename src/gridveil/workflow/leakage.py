"""What public trajectories give away by themselves: of a release before its charge, and for
`gridveil leakage`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from gridveil.adversary.coarsen import NOT_COARSER, Coarser, copy_coarser, write_coarser
from gridveil.adversary.leakage import (
    Leakage,
    check_claim,
    joint_epsilon,
    largest_mu,
    sigma_of,
)
from gridveil.adversary.leakage import leakage as compute
from gridveil.adversary.leakage.detailed import DT_S, detailed_leakage
from gridveil.dynamics.detailed.projection import project
from gridveil.foundation.archive import check_free_folder
from gridveil.foundation.errors import GridveilError, InputError, OptionError
from gridveil.foundation.limits import LONGEST_OPTION
from gridveil.foundation.progress import BASIS, CORNERS, LEAKAGE, staged
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import GridFacts
from gridveil.grid.parameters import Bounds
from gridveil.inference.fit import Observation
from gridveil.inference.fit.two_stage import TWO_STAGE_UP_TO
from gridveil.inference.records import Measured, read_all
from gridveil.planning.surrogate import at_middle
from gridveil.privacy.adjacency import Adjacency
from gridveil.workflow.basis import NOTHING_DONE, Basis, DetailedBasis, basis_of
from gridveil.workflow.detailed import check_detailed_records
from gridveil.workflow.places import check_figure, writing
from gridveil.workflow.settings import GridSettings, names_of, pairs_of

SEARCHED = (
    "The supremum over neighbours was searched for at the corners of the public bounds, not "
    "proven: others may have a larger μ, and then the claim does not hold."
)
OWN = "the grid's own topology"


@dataclass(frozen=True, kw_only=True)
class LeakageSettings(GridSettings):
    """What to compute of public records, and where.

    surrogate : a public case, or a bundle of the grid; None: this topology at the middle of the
    bounds.
    sigma : noise of a sample in words, 1e-4 (p.u.) or 5mHz; None: as declared, else its scatter.
    delta : of the joint claim; None: none is made.
    coarser : what a coarser record keeps.
    out : a folder for the coarser record.
    plot : a figure.
    bounded : groups whose bounds were given.
    """

    model: str = "auto"
    surrogate: str | None = None
    sigma: str | None = None
    delta: float | None = None
    coarser: Coarser = field(default_factory=Coarser)
    out: Path | None = None
    plot: Path | None = None
    bounded: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.trajectory:
            raise OptionError(
                "There is no trajectory to look at.",
                expected="--trajectory FILE.toml",
                outcome=NOTHING_DONE,
            )
        if self.delta is not None and not 0 < self.delta < 1:
            raise OptionError(
                f"--delta {self.delta:g} is no probability.",
                expected="a number such as 1e-5",
                outcome=NOTHING_DONE,
            )

    @classmethod
    def keys(cls) -> set[str]:
        """Names that `of` knows."""
        return super().keys() - {"coarser", "bounded"} | {"keep", "rate", "round_to"}

    @classmethod
    def read(cls, given: Mapping[str, Any], config: Path | None = None) -> dict[str, Any]:
        """Turn texts into the fields' own types."""
        settings = super().read(given, config)
        keep, rate, step = (settings.pop(name, None) for name in ("keep", "rate", "round_to"))
        settings["coarser"] = Coarser(
            names_of(keep) if keep is not None else None,
            _hz(rate, "--rate", "10Hz") if rate is not None else None,
            _hz(step, "--round", "1mHz", bare=False) if step is not None else None,
        )
        settings["bounded"] = tuple(pairs_of("bounds", given.get("bounds")))
        return settings


@dataclass(frozen=True, eq=False)
class LeakageReport:
    """What records give away, by what the record is; joint : what they promise beside a release.

    sigma : noise of a sample [p.u.].
    rounded : of a rounded one.
    sigma_from : its origin.
    """

    records: Mapping[str, Leakage]
    joint: Mapping[str, Mapping[str, Any]]
    sigma: float
    rounded: float | None
    sigma_from: str
    nominal_hz: float


@dataclass(frozen=True, eq=False)
class GivenAway:
    """What the trajectories of a release give away, and where their noise is from."""

    leakage: Leakage
    sigma_from: str

    def to_json(self) -> dict[str, Any]:
        """The same in JSON's types."""
        return {"sigma_from": self.sigma_from, **self.leakage.to_json()}


def given_away(
    observed: Sequence[Observation],
    facts: GridFacts | DetailedFacts,
    bounds: Bounds,
    adjacency: Adjacency,
    *,
    dt_s: float,
) -> GivenAway | str:
    """Compute what the trajectories of a release give away by themselves; or say why not.

    adjacency : the release's own, which the lineage's budget may fix.
    """
    if isinstance(facts, GridFacts) and len(facts.machines) > TWO_STAGE_UP_TO:
        return f"what the trajectory gives away is not computed above {TWO_STAGE_UP_TO} machines."
    try:
        sigma, sigma_from = min(sigma_of(observation) for observation in observed)
    except OptionError:
        return (
            "the record does not show its own noise. What it gives away under one that you name: "
            "gridveil leakage GRID --trajectory RECORD --sigma SIGMA"
        )
    settings: Any = {"sigma": sigma, "dt_s": dt_s}
    with staged(LEAKAGE):
        if isinstance(facts, GridFacts):
            leakage = compute(at_middle(facts, bounds), observed, bounds, adjacency, **settings)
        else:
            try:
                case = project(facts.public, {}).case
                leakage = detailed_leakage(case, observed, bounds, adjacency, **settings)
            except (GridveilError, ArithmeticError, np.linalg.LinAlgError) as error:
                return _not_computed(error)
    return GivenAway(leakage, sigma_from)


def _not_computed(error: Exception) -> str:
    """Say why nothing is known of what records of a detailed grid give away."""
    if isinstance(error, OptionError):  # too large
        return error.problem
    return "What these records give away is not computed: their model has no answer there."


def report_leakage(settings: LeakageSettings) -> LeakageReport:
    """Compute what public records give away before any ε is spent, and coarser ones too; write the
    coarser record and the figure that were asked for.

    Privacy
    -------
    Uses public facts of the grid only, at a public table or a bundle.
    """
    how, out, plot = settings.coarser, settings.out, settings.plot
    if plot:
        check_figure(plot)
    with staged(BASIS):
        basis = basis_of(settings, settings.surrogate, settings.bounded)
    facts = basis.facts
    _check_coarser(how, out, len(settings.trajectory))
    measured = _read_on(basis, settings)
    if settings.delta is not None:
        _check_joint(basis, measured, settings.sigma)
    if isinstance(basis, DetailedBasis):
        check_detailed_records([record.observation for record in measured], basis.facts)
    nominal_hz = facts.frequency_hz
    noise, noise_origin = _sigma(settings.sigma, measured, nominal_hz)
    with TemporaryDirectory() as folder:
        records = {"as it is": (measured, noise)}
        if how.asked:
            made = _made_coarser(measured[0], how, Path(folder) / "coarser", facts)
            records[how.in_words()] = [made], how.sigma(noise, nominal_hz)
        leakages = {name: _leakage(basis, *record) for name, record in records.items()}
        if how.asked:
            coarse = leakages[how.in_words()]
            notes = (*coarse.notes, *how.notes(noise, nominal_hz))
            leakages[how.in_words()] = replace(coarse, notes=notes)
        # At the noise before rounding, which only post-processes what the noise covers.
        joint = {}
        if settings.delta is not None:
            joint = {
                name: _joint(basis, record, noise, settings.delta)
                for name, (record, _) in records.items()
            }
        if plot:
            from gridveil.adversary.leakage.report import plot_leakage

            with writing(plot, "--plot") as place:
                plot_leakage(leakages, str(place))
        if out:  # last: whatever fails before leaves nothing there
            copy_coarser(Path(folder) / "coarser", out)
    rounded = how.sigma(noise, nominal_hz) if how.step_hz is not None else None
    return LeakageReport(leakages, joint, noise, rounded, noise_origin, nominal_hz)


def _check_coarser(how: Coarser, out: Path | None, records: int) -> None:
    """Refuse what no coarser record can be made of."""
    if how.keep == ():
        raise OptionError(
            "--keep names no bus.",
            expected="buses of the record, such as 1,13",
            outcome=NOTHING_DONE,
        )
    if out and not how.asked:
        raise OptionError(
            "--out has nothing to write.",
            expected="--keep, --rate or --round beside it",
            outcome=NOTHING_DONE,
        )
    if how.asked and records > 1:
        raise OptionError(
            "Several records cannot be made coarser at once.",
            expected="one --trajectory",
            outcome=NOTHING_DONE,
        )
    if out:
        check_free_folder(out)


def _leakage(basis: Basis | DetailedBasis, measured: Sequence[Measured], sigma: float) -> Leakage:
    observed = [record.observation for record in measured]
    public: Any = (observed, basis.bounds, basis.adjacency)
    with staged(LEAKAGE):
        if isinstance(basis, Basis):
            leakage = compute(basis.table, *public, sigma=sigma, origin=basis.origin)
        else:
            leakage = detailed_leakage(basis.case, *public, sigma=sigma, origin=basis.origin)
    return replace(leakage, notes=(*basis.notes, *leakage.notes))


def _made_coarser(
    measured: Measured, how: Coarser, folder: Path, facts: GridFacts | DetailedFacts
) -> Measured:
    """Write the coarser record and read it back; what is wrong with it then is not said of the
    finer one.
    """
    declared = write_coarser(measured.declared, how, folder, base_mva=facts.base_mva)
    try:
        (made,) = read_all([declared], facts, clock_of(facts))
    except InputError as error:
        raise OptionError(
            f"The record, {how.in_words()}, cannot be used: {error.problem}",
            outcome=NOT_COARSER,
            remedy="Take other buses, another rate or a finer rounding.",
        ) from None
    return made


def _hz(text: str, option: str, example: str, *, bare: bool = True) -> float:
    """Read a frequency [Hz] such as 10Hz or 1mHz.

    bare : whether a number without its unit will do, in Hz.
    """
    pattern = r"\s*([0-9.eE+-]+)\s*(mHz|Hz)" + ("?" if bare else "") + r"\s*"
    match = re.fullmatch(pattern, text) if len(text) <= LONGEST_OPTION else None
    try:
        value = float(match[1]) * (1e-3 if match[2] == "mHz" else 1.0) if match else 0.0
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        kind = "a frequency" if bare else "a frequency with its unit,"
        raise OptionError(
            f"{option} {text} cannot be read.",
            expected=f"{kind} such as {example}",
            outcome=NOTHING_DONE,
        )
    return value


def _sigma(text: str | None, measured: Sequence[Measured], nominal_hz: float) -> tuple[float, str]:
    """Noise of a sample [p.u.], and where it is from."""
    if text is None:
        return min(sigma_of(record.observation) for record in measured)
    if text.strip().endswith("Hz"):
        return _hz(text, "--sigma", "5mHz") / nominal_hz, "--sigma"
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise OptionError(
            f"--sigma {text} cannot be read.", expected="1e-4 (p.u.) or 5mHz", outcome=NOTHING_DONE
        )
    return value, "--sigma"


def _joint(
    basis: Basis | DetailedBasis, measured: Sequence[Measured], sigma: float, delta: float
) -> dict[str, Any]:
    """What trajectory and release promise together, if the noise is white and of that size: at the
    largest μ found.
    """
    assert isinstance(basis, Basis), "see _check_joint"
    observed = _on_own_grid(basis, measured)
    with staged(CORNERS):
        mu = largest_mu(basis.claimed, observed, basis.bounds, basis.adjacency, sigma=sigma)
    return {
        "mu": mu,
        "mu_is": SEARCHED,
        "computed_on": OWN,
        "delta": delta,
        "epsilon_x": joint_epsilon(mu, delta),
    }


def _check_joint(
    basis: Basis | DetailedBasis, measured: Sequence[Measured], sigma: str | None
) -> None:
    """Refuse a joint claim that would be none, before anything is computed."""
    if isinstance(basis, DetailedBasis):
        raise OptionError(
            "A joint claim is not worked out for detailed grids: μ is known at one case, to first "
            "order.",
            outcome=NOTHING_DONE,
            remedy="Leave --delta out.",
        )
    if sigma is None:
        raise OptionError(
            "A joint claim needs white noise of a declared size: a record's own scatter promises "
            "nothing, and the sigma of its TOML counts model error and rounding too, which protect "
            "nobody.",
            expected="--sigma beside --delta: what the sensor's noise alone is",
            outcome=NOTHING_DONE,
        )
    check_claim(basis.claimed.facts, _on_own_grid(basis, measured))


def clock_of(facts: GridFacts | DetailedFacts) -> float:
    """The step that records are put on [s]."""
    return 0.01 if isinstance(facts, GridFacts) else DT_S


def _read_on(basis: Basis | DetailedBasis, settings: GridSettings) -> list[Measured]:
    """Read the records on the table's buses; where those of a surrogate do not fit, do not blame
    the record.
    """
    try:
        return read_all(settings.trajectory, basis.facts, clock_of(basis.facts))
    except InputError as error:
        if basis.own is basis.facts:
            raise
        read_all(
            settings.trajectory, basis.own, clock_of(basis.own)
        )  # what is wrong on the grid itself is the record's own fault
        raise OptionError(
            f"The record fits the grid, and not the surrogate {basis.origin}: {error.problem}",
            outcome=NOTHING_DONE,
            remedy="Name a public case that has buses of these names, or leave --surrogate out.",
        ) from None


def _on_own_grid(basis: Basis, measured: Sequence[Measured]) -> list[Observation]:
    """The records with their events as the grid itself has them: a surrogate's buses and loads are
    others.
    """
    if basis.claimed.facts is not basis.table.facts:
        measured = read_all([record.declared for record in measured], basis.claimed.facts)
    return [record.observation for record in measured]
