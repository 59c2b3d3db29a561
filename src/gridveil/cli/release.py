"""The command that spends: release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridveil.cli import options
from gridveil.cli.ends import note_outcome
from gridveil.cli.keys import open_signer
from gridveil.cli.leakage import before_release
from gridveil.cli.output import (
    fit_progress,
    guarantee_json,
    print_guarantee,
    print_json,
    print_notice,
    print_text,
    stage_progress,
)
from gridveil.cli.reading import GridReading, PublishLoads, reads_grid
from gridveil.cli.trajectories import (
    event_json,
    events_in_words,
    print_trajectory,
    read_all,
    trajectory_json,
)
from gridveil.foundation.errors import NOTHING_SPENT, GridveilError, OptionError
from gridveil.foundation.progress import RELEASE, stage
from gridveil.privacy.epsilon import float_at_least, float_at_most

if TYPE_CHECKING:
    from gridveil.cli.options import ReleaseSettings
    from gridveil.grid.facts import GridFacts, IntArray
    from gridveil.grid.parameters import Bounds
    from gridveil.inference.fit.methods import Progress
    from gridveil.privacy.adjacency import Adjacency
    from gridveil.privacy.allocation import Allocation
    from gridveil.publication.release import FitSummary
    from gridveil.vault.source import SourceGrid


@reads_grid
def release(
    grid: options.OptionalGrid = None,
    epsilon: Annotated[
        str | None, typer.Option(help="privacy loss, exact: 1/2 or 0.5", show_default=False)
    ] = None,
    adjacency: options.AdjacencyName = None,
    alpha_k: options.AlphaK = None,
    alpha_m: options.AlphaM = None,
    alpha_d: options.AlphaD = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            help="aggregates (sums of m and of d; default without a trajectory), items (every "
            "entry; default with one) or topology (sums, and nothing of the network)",
            show_default=False,
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="shares of epsilon, such as k=1,m=1/4,d=3/4; default: chosen on a surrogate",
            show_default=False,
        ),
    ] = None,
    share_by: Annotated[
        str | None,
        typer.Option(
            help="how machines share a sum: equal (default), or rating (rated MVA, then public)",
            show_default=False,
        ),
    ] = None,
    surrogate: Annotated[
        str | None,
        typer.Option(
            help="a public case to choose the shares on, named in the certificate; default: this "
            "topology at the middle of the bounds",
            show_default=False,
        ),
    ] = None,
    bounds_k: options.BoundsK = None,
    bounds_k_r: Annotated[
        str | None,
        typer.Option(
            help="public bounds of the reduced weights [p.u. power / rad]; default 0:200",
            show_default=False,
        ),
    ] = None,
    bounds_m: options.BoundsM = None,
    bounds_d: options.BoundsD = None,
    profile: Annotated[
        str | None, typer.Option(help="default or paper", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="bundle to write: a folder, or a file that ends in .zip; default release",
            show_default=False,
        ),
    ] = None,
    lineage: Annotated[
        str | None,
        typer.Option(
            help="account of the ledger to charge; default: the grid's name", show_default=False
        ),
    ] = None,
    ledger: options.LedgerPlace = None,
    witness: options.WitnessPlace = None,
    count: Annotated[
        int | None,
        typer.Option(
            help="draw this many releases; costs as many times epsilon; default 1",
            show_default=False,
        ),
    ] = None,
    bounds_origin: Annotated[
        str | None,
        typer.Option(
            help="where the bounds come from: a public source, in words", show_default=False
        ),
    ] = None,
    formats: Annotated[
        str | None,
        typer.Option(
            help="other tools' formats to put into the bundle, such as andes,psse,mat",
            show_default=False,
        ),
    ] = None,
    merge_loads: Annotated[
        str | None,
        typer.Option(
            help="show loaded buses as fewer ports: equal (those behind one cut vertex), or a "
            "number of zones",
            show_default=False,
        ),
    ] = None,
    trajectory: options.Trajectories = None,
    config: Annotated[
        Path | None,
        typer.Option(help="a release.toml that holds any of these options", show_default=False),
    ] = None,
    publish_loads: PublishLoads = None,
    *,
    reading: GridReading,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask before going on")] = False,
    json: options.Json = False,
) -> None:
    """Perturb a grid and reduce it to its machines: a real release, charged, certified and signed.

    With a public trajectory the model is fitted to it as well (step 3), and the guarantee is
    conditional on that trajectory.
    """
    trajectory = trajectory or None
    given = {
        name: value
        for name, value in locals().items()
        if name not in ("config", "json", "yes", "reading")
    }
    settings = options.release_settings(config, given | vars(reading))
    from gridveil.cli.outcome import outcome_told
    from gridveil.foundation import crash_points
    from gridveil.foundation.archive import check_free
    from gridveil.privacy.ledger import Ledger
    from gridveil.publication.certificate import SELECTION
    from gridveil.publication.export import check_formats
    from gridveil.readers.cases import BUNDLED
    from gridveil.vault.perturb import check_draw, version_of
    from gridveil.workflow.publish import check_allocation, check_observed, publish

    note_outcome(NOTHING_SPENT)
    places = (
        [settings.out]
        if settings.count == 1
        else [_numbered(settings.out, n + 1) for n in range(settings.count)]
    )
    for place in places:
        check_free(place)
    with stage_progress(RELEASE, quiet=json):
        source = options.open_named_grid(settings.grid, settings.dynamics_file, settings.dynamics)
    check_formats(settings.formats, len(source.facts.machines))
    fit = settings.profile.settings
    measured = read_all(settings.trajectories, source.facts, fit.dt_s, settings.bounds)
    observed = [one.observation for one in measured]
    check_observed(observed, source.facts, fit, settings.bounds)
    book = Ledger(settings.ledger, witness=settings.witness)
    crash_points.step("opened")
    name = settings.lineage or Path(source.facts.name).stem
    known = book.account(name)
    chosen = settings.adjacency(known)
    try:
        leaked = before_release(measured, source.facts, settings, chosen, quiet=json, yes=yes)
    except typer.Abort:  # the question was left without an answer: as good as no
        raise GridveilError(
            "The release was called off.",
            outcome=NOTHING_SPENT,
            remedy="Answer y or n, or give --yes to go on without a question.",
        ) from None
    with stage_progress(RELEASE, quiet=json):
        allocation = settings.given_allocation() or _chosen_on_surrogate(settings, source, chosen)
    check_allocation(source.facts, allocation, fits=bool(observed))
    check_draw(source, settings.epsilon, chosen, settings.bounds, allocation)
    ports = _ports(settings.merge_loads, source.facts, allocation)
    signer = open_signer()
    if settings.count > 1:
        print_notice(
            f"{settings.count} draws at ε = {settings.epsilon} each cost ε = "
            f"{settings.count * settings.epsilon} together."
        )
        print_notice(SELECTION)
        if known is None:
            book.set_budget(
                name, chosen, settings.count * settings.epsilon, version_of(source, book)
            )
        else:
            losses = allocation.over(chosen).split(settings.epsilon, allocation.assets)
            known.check_covers(settings.epsilon, losses, settings.count)
    by_default = settings.bounds == settings.profile.bounds and settings.grid not in BUNDLED
    if by_default and not json:  # before anything is charged
        print_notice(_default_bounds(settings.bounds))
    reports = []
    with outcome_told(book, name, places, settings.epsilon):
        for place in places:
            with _progress(fits=bool(observed), quiet=json) as progress:
                made = publish(
                    source,
                    observed,
                    epsilon=settings.epsilon,
                    adjacency=chosen,
                    bounds=settings.bounds,
                    ledger=book,
                    settings=fit,
                    progress=progress,
                    lineage=name,
                    allocation=allocation,
                    start=settings.profile.start,
                    ports=ports,
                )
                report = made.save(place, signer, settings.formats)
            assert made.receipt is not None
            book.mark_published(made.receipt.entry, report.digest)
            crash_points.step("published")
            reports.append((made, report))
    warnings = _warnings(settings.epsilon, reports[-1][0].clipped, source.facts, allocation)
    if by_default and json:
        warnings.insert(0, _default_bounds(settings.bounds))
    account = book.account(name)
    assert account is not None, "it was charged"
    spent, left = float_at_least(account.spent), float_at_most(account.left)
    left = left if left > 1e-12 else 0.0  # what rounding down to floats left over
    made, report = reports[-1]
    if json:
        print_json(
            {
                "demo": False,
                "bundles": [one.path for _, one in reports],
                "bundle": report.path,
                "digest": report.digest,
                "signed_by": report.signed_by,
                "guarantee": guarantee_json(made.guarantee),
                "allocation": allocation.in_words(),
                "ports": _named(ports, source.facts),
                "clipped": made.clipped,
                "fits": [_fit_json(one.fitted) for one, _ in reports if one.fitted],
                "estimated_events": [
                    event_json(one, measured, source.facts) for one in made.events
                ],
                "trajectories": [trajectory_json(one) for one in measured],
                "leakage": leaked,
                "ledger": book.location,
                "lineage": name,
                "epsilon_spent": spent,
                "epsilon_left": left,
                "warnings": warnings,
            }
        )
        return
    for warning in warnings:
        print_notice(warning)
    for one in measured:
        print_trajectory(one)
    print_guarantee(made.guarantee, made.clipped)
    print_text(f"Drawn    {allocation.in_words()}")
    for port, buses in _named(ports, source.facts).items():
        print_text(f"Port     {port}: {', '.join(buses)}")
    for one, _ in reports:
        if one.fitted:
            print_text(*_fit_in_words(one.fitted))
        for line in events_in_words(one.events, measured, source.facts):
            print_text(line)
    for _, one in reports:
        print_text(f"Bundle   {one.path}")
    print_text(
        f"Ledger   {book.location}: lineage {name}, ε = {spent:.6g} spent, {left:.6g} left of "
        f"{account.epsilon}",
        f"Signed   by key {signer.key_id}"
        if signer
        else "Signed   by nobody: make a key with gridveil keys new",
        f"Next     gridveil verify {report.path}",
    )


def _default_bounds(bounds: Bounds) -> str:
    shown = ", ".join(f"{name} {bounds[name].lower:g}:{bounds[name].upper:g}" for name in "kmd")
    return (
        f"public bounds are the defaults, {shown}; values beyond them are clipped, and the release "
        "is charged all the same. Set --bounds-k, --bounds-m and --bounds-d from public knowledge."
    )


@contextmanager
def _progress(*, fits: bool, quiet: bool) -> Iterator[Progress | None]:
    """Show a bar over a fit where there is one, else over the stages of a release."""
    if fits:
        with fit_progress(quiet) as progress:
            yield progress
        return
    with stage_progress(RELEASE, quiet):
        yield None


def _fit_json(fitted: FitSummary) -> dict[str, Any]:
    return {
        "method": fitted.method,
        "mismatch_before_pu2_s": fitted.mismatch_before,
        "mismatch_after_pu2_s": fitted.mismatch_after,
        "iterations": fitted.iterations,
        "converged": fitted.converged,
        "directions_by_records": fitted.by_records,
        "directions_by_release": fitted.by_release,
    }


def _fit_in_words(fitted: FitSummary) -> list[str]:
    text = (
        f"Fit      {fitted.method}: mismatch J from {fitted.mismatch_before:.3e} to "
        f"{fitted.mismatch_after:.3e} p.u.² s in {fitted.iterations} "
        f"iterations{'' if fitted.converged else ', where it stopped before converging'}"
    )
    if fitted.by_records is None:
        return [text]
    fixed = (
        f"{fitted.by_records} directions of the parameters fixed by records, "
        f"{fitted.by_release} by the release"
    )
    return [text, f"         {fixed}"]


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-{number}{path.suffix}")


def _ports(
    merge: str | None, facts: GridFacts, allocation: Allocation
) -> tuple[IntArray, ...] | None:
    """Group the loaded buses as asked, by the topology alone; None: each is a port of its own."""
    if merge is None:
        return None
    if allocation.hides_network:
        raise OptionError(
            "Topology mode has one port for all load: there is nothing to merge.",
            outcome=NOTHING_SPENT,
            remedy="Leave --merge-loads out.",
        )
    from gridveil.publication.ports import equal_ports, zone_ports

    return equal_ports(facts) if merge == "equal" else zone_ports(facts, int(merge))


def _named(ports: tuple[IntArray, ...] | None, facts: GridFacts) -> dict[str, tuple[str, ...]]:
    """The owner's buses behind each port, where ports were merged."""
    from gridveil.publication.ports import named_ports

    return {} if ports is None else named_ports(facts, ports)


def _chosen_on_surrogate(
    settings: ReleaseSettings, source: SourceGrid, adjacency: Adjacency
) -> Allocation:
    """Share ε by what a public surrogate shows; the grid itself has no part in it, in topology mode
    not even its network.
    """
    from gridveil.planning.surrogate import (
        AROUND_ONE_BUS,
        AT_MIDDLE,
        at_middle,
        choose,
        without_network,
    )

    mechanism: Any = settings.mechanism or settings.profile.mechanism
    sharing: Any = settings.sharing or "equal"
    if settings.surrogate is not None:
        table, origin = (
            options.open_surrogate(settings.surrogate, settings, source.facts),
            Path(settings.surrogate).name,
        )
    elif mechanism == "topology":
        table, origin = at_middle(without_network(source.facts), settings.bounds), AROUND_ONE_BUS
    else:
        table, origin = at_middle(source.facts, settings.bounds), AT_MIDDLE
    stage("sharing epsilon out")
    return choose(
        table,
        adjacency,
        settings.epsilon,
        settings.bounds,
        mechanism=mechanism,
        sharing=sharing,
        origin=origin,
    )


def _warnings(
    epsilon: Fraction, clipped: Mapping[str, int], facts: GridFacts, allocation: Allocation
) -> list[str]:
    """Say what an owner should not overlook: an ε that hides little, bounds that hold the
    values.
    """
    found = []
    if epsilon > 10:
        found.append(
            f"ε = {epsilon} hides next to nothing: odds between neighbours may change by e^ε."
        )
    for name, count in clipped.items():
        if count > (0 if allocation.of(name).takes == "sum" else facts.sizes[name] / 4):
            what = f"The noisy sum of {name} lies on its public bounds"
            if allocation.of(name).takes == "items":
                what = (
                    f"{count} of {facts.sizes[name]} entries of {name} lie on their public bounds"
                )
            found.append(
                f"{what}: if these do not fit the grid, the model is poor. Choose --bounds-{name} "
                "from public knowledge."
            )
    return found
