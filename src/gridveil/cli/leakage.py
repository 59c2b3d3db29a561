"""The command that shows what a public trajectory gives away by itself: leakage."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridveil.cli import options
from gridveil.cli.basis import NOTHING_DONE, Basis, basis_of
from gridveil.cli.leakage_output import OWN, SEARCHED, print_joint, print_leakage
from gridveil.cli.output import (
    check_figure,
    print_json,
    print_notice,
    print_text,
    stage_progress,
    writing,
)
from gridveil.cli.reading import GridReading, PublishLoads, reads_grid
from gridveil.cli.trajectories import read_all
from gridveil.foundation.errors import GridveilError, InputError, OptionError
from gridveil.foundation.limits import LONGEST_OPTION
from gridveil.foundation.progress import BASIS, CORNERS, LEAKAGE
from gridveil.privacy.adjacency import NOTHING_SPENT

if TYPE_CHECKING:
    from gridveil.adversary.coarsen import Coarser
    from gridveil.adversary.leakage import Leakage
    from gridveil.cli.options import ReleaseSettings
    from gridveil.grid.facts import GridFacts
    from gridveil.inference.fit import Observation
    from gridveil.inference.records import Measured
    from gridveil.privacy.adjacency import Adjacency


@reads_grid
def leakage(
    grid: options.Grid,
    trajectory: options.Trajectories = None,
    surrogate: Annotated[
        str | None,
        typer.Option(
            help="a public case, or a bundle of GRID, to compute at; default: this topology at the "
            "middle of the bounds",
            show_default=False,
        ),
    ] = None,
    sigma: Annotated[
        str | None,
        typer.Option(
            help="noise of a sample: 1e-4 (p.u.) or 5mHz; default: as declared, else its scatter",
            show_default=False,
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            help="also give the epsilon of trajectory and release together; needs --sigma",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(help="a coarser record: these buses only, such as 1,13", show_default=False),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(help="a coarser record: samples per second, such as 10Hz", show_default=False),
    ] = None,
    round_to: Annotated[
        str | None,
        typer.Option(
            "--round",
            help="a coarser record: values rounded to this, such as 1mHz",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="folder to write the coarser record and its TOML to", show_default=False),
    ] = None,
    adjacency: options.AdjacencyName = None,
    alpha_k: options.AlphaK = None,
    alpha_m: options.AlphaM = None,
    alpha_d: options.AlphaD = None,
    bounds_k: options.BoundsK = None,
    bounds_m: options.BoundsM = None,
    bounds_d: options.BoundsD = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="draw each item's relative error there (.png, .pdf or .svg)", show_default=False
        ),
    ] = None,
    publish_loads: PublishLoads = None,
    *,
    reading: GridReading,
    json: options.Json = False,
) -> None:
    """Show what a public trajectory gives away by itself, before any epsilon is spent. Uses public
    facts of GRID only.

    At a bundle (--surrogate), bounds, adjacency and distances that no option gives are the bundle's
    own.
    """
    ignored = (
        "sigma",
        "delta",
        "keep",
        "rate",
        "round_to",
        "plot",
        "json",
        "surrogate",
        "out",
        "reading",
    )
    given = {name: value for name, value in locals().items() if name not in ignored}
    given |= vars(reading) | {"trajectory": trajectory or None}
    settings = options.release_settings(
        None, {**given, "epsilon": "1"}
    )  # no epsilon is spent here, and none is used
    if not settings.trajectories:
        raise OptionError(
            "There is no trajectory to look at.",
            expected="--trajectory FILE.toml",
            outcome=NOTHING_DONE,
        )
    if plot:
        check_figure(plot)
    if delta is not None and not 0 < delta < 1:
        raise OptionError(
            f"--delta {delta:g} is no probability.",
            expected="a number such as 1e-5",
            outcome=NOTHING_DONE,
        )
    bounded = [name for name in "kmd" if given[f"bounds_{name}"] is not None]
    with stage_progress(BASIS, quiet=json):
        basis = basis_of(settings, surrogate, bounded)
    facts = basis.table.facts
    how = _coarser(keep, rate, round_to, out, len(settings.trajectories))
    measured = _read_on(basis, settings)
    if delta is not None:
        _check_joint(basis, measured, sigma)
    nominal_hz = facts.frequency_hz
    noise, noise_origin = _sigma(sigma, measured, nominal_hz)
    with TemporaryDirectory() as folder:
        records = {"as it is": (measured, noise)}
        if how.asked:
            made = _made_coarser(measured[0], how, Path(folder) / "coarser", facts)
            records[how.in_words()] = [made], how.sigma(noise, nominal_hz)
        found = {name: _leakage(basis, *record, quiet=json) for name, record in records.items()}
        if how.asked:
            found[how.in_words()] = replace(
                found[how.in_words()],
                notes=(*found[how.in_words()].notes, *how.notes(noise, nominal_hz)),
            )
        # At the noise before rounding, which only post-processes what the noise covers.
        joint = {}
        if delta is not None:
            joint = {
                name: _joint(basis, one, noise, delta, quiet=json)
                for name, (one, _) in records.items()
            }
        if plot:
            from gridveil.adversary.leakage.drawing import plot_leakage

            with writing(plot, "--plot"):
                plot_leakage(found, str(plot))
        if out:  # last: whatever fails before leaves nothing there
            from gridveil.adversary.coarsen import copy_coarser

            copy_coarser(Path(folder) / "coarser", out)
    if json:
        print_json(
            {
                "sigma_from": noise_origin,
                "records": [
                    {"record": name, **one.to_json(), **({"joint": joint[name]} if joint else {})}
                    for name, one in found.items()
                ],
                "coarser_record": str(out) if how.asked and out else None,
                "plot": str(plot) if plot else None,
            }
        )
        return
    for name, one in found.items():
        print_leakage(name, one)
        if joint:
            print_joint(joint[name])
    shown = f"{noise:.3g} p.u. ({1000 * noise * nominal_hz:.3g} mHz), from {noise_origin}"
    if how.step_hz is not None:
        rounded = how.sigma(noise, nominal_hz)
        shown += f"; rounded, {rounded:.3g} p.u. ({1000 * rounded * nominal_hz:.3g} mHz)"
    print_text(f"Noise    {shown}")
    if how.asked:
        print_text(
            "Coarser  It helps only where the finer record is not public, and never becomes so."
        )
        if out:
            print_text(f"Written  {out}")
    if plot:
        print_text(f"Figure   {plot}")


def before_release(
    measured: Sequence[Measured],
    facts: GridFacts,
    settings: ReleaseSettings,
    adjacency: Adjacency,
    *,
    quiet: bool,
    yes: bool,
) -> dict[str, Any] | None:
    """Show what the trajectories of a release give away by themselves; at a terminal, ask whether
    to go on.

    adjacency : the release's own, which the lineage's budget may fix.
    """
    from gridveil.adversary.leakage import leakage as compute
    from gridveil.adversary.leakage import sigma_of
    from gridveil.inference.fit.two_stage import MOST_MACHINES
    from gridveil.planning.surrogate import at_middle

    if not measured:
        return None
    if len(facts.machines) > MOST_MACHINES:
        if not quiet:
            print_notice(
                f"what the trajectory gives away is not computed above {MOST_MACHINES} machines."
            )
        return None
    try:
        sigma, sigma_from = min(sigma_of(one.observation) for one in measured)
    except OptionError:
        if not quiet:
            print_notice(
                "the record does not show its own noise: see gridveil leakage --sigma for what it "
                "gives away."
            )
        return None
    with stage_progress(LEAKAGE, quiet):
        found = compute(
            at_middle(facts, settings.bounds),
            [one.observation for one in measured],
            settings.bounds,
            adjacency,
            sigma=sigma,
            dt_s=settings.profile.settings.dt_s,
        )
    if not quiet:
        print_notice(found.verdict())
        if not yes and _at_a_terminal() and not typer.confirm("Go on?", default=True, err=True):
            raise GridveilError(
                "The release was called off.",
                outcome=NOTHING_SPENT,
                remedy="A coarser record may tell less: gridveil leakage --keep … --rate … "
                "--round …",
            )
    return {"sigma_from": sigma_from, **found.to_json()}


def _at_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _leakage(basis: Basis, measured: Sequence[Measured], sigma: float, *, quiet: bool) -> Leakage:
    from gridveil.adversary.leakage import leakage as compute

    observed = [one.observation for one in measured]
    with stage_progress(LEAKAGE, quiet):
        found = compute(
            basis.table, observed, basis.bounds, basis.adjacency, sigma=sigma, origin=basis.origin
        )
    return replace(found, notes=(*basis.notes, *found.notes))


def _coarser(
    keep: str | None, rate: str | None, round_to: str | None, out: Path | None, records: int
) -> Coarser:
    from gridveil.adversary.coarsen import Coarser
    from gridveil.foundation.archive import check_free_folder

    how = Coarser(
        tuple(bus.strip() for bus in keep.split(",") if bus.strip()) if keep is not None else None,
        _hz(rate, "--rate", "10Hz") if rate is not None else None,
        _hz(round_to, "--round", "1mHz", bare=False) if round_to is not None else None,
    )
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
    return how


def _made_coarser(measured: Measured, how: Coarser, folder: Path, facts: GridFacts) -> Measured:
    """Write the coarser record and read it back; what is wrong with it then is not said of the
    finer one.
    """
    from gridveil.adversary.coarsen import NOT_COARSER, write_coarser

    declared = write_coarser(measured.declared, how, folder, base_mva=facts.base_mva)
    try:
        (made,) = read_all([declared], facts)
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
    found = re.fullmatch(pattern, text) if len(text) <= LONGEST_OPTION else None
    try:
        value = float(found[1]) * (1e-3 if found[2] == "mHz" else 1.0) if found else 0.0
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
    from gridveil.adversary.leakage import sigma_of

    if text is None:
        return min(sigma_of(one.observation) for one in measured)
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
    basis: Basis, measured: Sequence[Measured], sigma: float, delta: float, *, quiet: bool
) -> dict[str, Any]:
    """What trajectory and release promise together, if the noise is white and of that size: at the
    largest μ found.
    """
    from gridveil.adversary.leakage import joint_epsilon, largest_mu

    observed = _on_own_grid(basis, measured)
    with stage_progress(CORNERS, quiet):
        mu = largest_mu(basis.claimed, observed, basis.bounds, basis.adjacency, sigma=sigma)
    return {
        "mu": mu,
        "mu_is": SEARCHED,
        "computed_on": OWN,
        "delta": delta,
        "epsilon_x": joint_epsilon(mu, delta),
    }


def _check_joint(basis: Basis, measured: Sequence[Measured], sigma: str | None) -> None:
    """Refuse a joint claim that would be none, before anything is computed."""
    from gridveil.adversary.leakage import check_claim

    if sigma is None:
        raise OptionError(
            "A joint claim needs white noise of a declared size: a record's own scatter promises "
            "nothing, and the sigma of its TOML counts model error and rounding too, which protect "
            "nobody.",
            expected="--sigma beside --delta: what the sensor's noise alone is",
            outcome=NOTHING_DONE,
        )
    check_claim(basis.claimed.facts, _on_own_grid(basis, measured))


def _read_on(basis: Basis, settings: ReleaseSettings) -> list[Measured]:
    """Read the records on the table's buses; where those of a surrogate do not fit, do not blame
    the record.
    """
    try:
        return read_all(settings.trajectories, basis.table.facts)
    except InputError as error:
        if basis.claimed.facts is basis.table.facts:
            raise
        read_all(
            settings.trajectories, basis.claimed.facts
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
        measured = read_all([one.declared for one in measured], basis.claimed.facts)
    return [one.observation for one in measured]
