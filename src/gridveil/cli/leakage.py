"""The command that shows what a public trajectory gives away by itself: leakage."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gridveil.cli import options
from gridveil.cli.options import GridReading, PublishLoads, reads_grid
from gridveil.cli.output import print_json, print_table, print_text, progress_bar
from gridveil.cli.terms import explained

if TYPE_CHECKING:
    from gridveil.adversary.leakage import Attacker, Leakage


@reads_grid
def leakage(
    grid: options.Grid,
    trajectory: options.Trajectories = None,
    surrogate: Annotated[
        str | None,
        options.option(
            "a public case, or a bundle of GRID, to compute at; default: this topology at the "
            "middle of the bounds, or with typical devices"
        ),
    ] = None,
    sigma: Annotated[
        str | None,
        options.option(
            "noise of a sample: 1e-4 (p.u.) or 5mHz; default: as declared, else its scatter"
        ),
    ] = None,
    delta: Annotated[
        float | None,
        options.option("also give the epsilon of trajectory and release together; needs --sigma"),
    ] = None,
    keep: Annotated[
        str | None, options.option("a coarser record: these buses only, such as 1,13")
    ] = None,
    rate: Annotated[
        str | None, options.option("a coarser record: samples per second, such as 10Hz")
    ] = None,
    round_to: Annotated[
        str | None,
        options.option("a coarser record: values rounded to this, such as 1mHz", "--round"),
    ] = None,
    out: Annotated[
        Path | None, options.option("folder to write the coarser record and its TOML to")
    ] = None,
    model: options.ModelName = None,
    adjacency: options.AdjacencyName = None,
    alpha: options.Alpha = None,
    bounds: options.Bounds = None,
    plot: Annotated[
        Path | None, options.option("draw each item's relative error there (.png, .pdf or .svg)")
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
    given = {name: value for name, value in locals().items() if name not in ("reading", "json")}
    from gridveil.workflow.leakage import LeakageSettings, report_leakage

    given["trajectory"] = trajectory or None
    given |= {name: options.joined(given[name]) for name in ("alpha", "bounds")}
    settings = LeakageSettings.of(given | reading)
    coarser = settings.coarser.asked
    with progress_bar(quiet=json):
        report = report_leakage(settings)
    if json:
        print_json(
            {
                "sigma_from": report.sigma_from,
                "records": [
                    {
                        "record": name,
                        **record.to_json(),
                        **({"joint": dict(report.joint[name])} if report.joint else {}),
                    }
                    for name, record in report.records.items()
                ],
                "coarser_record": str(out) if coarser and out else None,
                "plot": str(plot) if plot else None,
            }
        )
        return
    for name, record in report.records.items():
        print_leakage(name, record)
        if report.joint:
            print_joint(report.joint[name])
    shown = f"{_noise(report.sigma, report.nominal_hz)}, from {report.sigma_from}"
    if report.rounded is not None:
        shown += f"; rounded, {_noise(report.rounded, report.nominal_hz)}"
    print_text(f"Noise    {shown}")
    if coarser:
        print_text(
            "Coarser  It helps only where the finer record is not public, and never becomes so."
        )
        if out:
            print_text(f"Written  {out}")
    if plot:
        print_text(f"Figure   {plot}")


def _noise(sigma: float, nominal_hz: float) -> str:
    return f"{sigma:.3g} p.u. ({1000 * sigma * nominal_hz:.3g} mHz)"


# Of an attacker who knows the total load of the event, and of one who does not.
KNOWN, UNKNOWN = ("Σℓ public: bound", "Σℓ unknown: bound")
COLUMNS = ("with bounds", "best known", "mean", "largest μ")


def print_leakage(name: str, leakage: Leakage) -> None:
    """Print the figures of a record, and what they mean."""
    from gridveil.adversary.leakage import percent

    known, unknown = leakage.known, leakage.unknown
    attackers = {KNOWN if unknown else "bound": known} | ({UNKNOWN: unknown} if unknown else {})
    shown = (COLUMNS[0], COLUMNS[-1]) if unknown else COLUMNS
    rows = []
    for group in known.items:
        row = [group, percent(known.items[group].prior)]
        for attacker in attackers.values():
            told = attacker.items[group]
            row += [_range(attacker, group), percent(told.typical)]
            row += [] if told.mean is None else [percent(told.best), percent(told.mean)]
            row.append(f"{attacker.mu[group].max(initial=0.0):.3g}")
        rows.append(row)
    print_table(
        f"The record {name}: {leakage.samples} values at {len(leakage.locations)} location(s), "
        f"computed at {leakage.origin}",
        ("group", "bounds alone", *(part for bound in attackers for part in (bound, *shown))),
        rows,
    )
    print_text(explained(*["Σℓ"] * bool(unknown), "bound", "μ"))
    entries = f"({', '.join(known.items)})" if unknown else "the entries"
    print_text(
        f"Rank     {known.rank} of {known.size} directions of {entries} seen, {known.seen} fixed "
        "better than by the bounds" + (f" (Σℓ unknown: {unknown.seen})" if unknown else "")
    )
    if known.reduced:
        print_text(
            "Reduced  without topology, Σℓ public: "
            + ", ".join(f"{group} {_spread(values)}" for group, values in known.reduced.items())
        )
    print_text(
        f"μ        {known.mu_neighbours:.3g} between neighbours ({leakage.rule}) here",
        f"Verdict  {leakage.verdict()}",
        *(f"Note     {note}" for note in leakage.notes),
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
