"""The command that proposes ε: plan.

It reads a public surrogate only, draws with seeds and charges nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridveil.cli import options
from gridveil.cli.options import GridReading, reads_grid
from gridveil.cli.output import (
    LARGE_EPSILON,
    print_command,
    print_json,
    print_table,
    print_text,
    progress_bar,
)
from gridveil.cli.terms import explained

if TYPE_CHECKING:
    from fractions import Fraction

    from gridveil.planning.plan import Plan
    from gridveil.planning.plan.search import Choice
    from gridveil.planning.plan.targets import Target

NOT_BINDING = (
    "These figures are the surrogate's. They bind nothing for the private grid, which had no part "
    "in them: there, errors may be larger or smaller. ε, the rule and α are a matter of what must "
    "be hidden; a plan says only what they cost."
)
MET_WITHOUT = (
    "The bounds alone meet the targets: this surrogate lies in their middle, so that it says "
    "little about ε. Name another one as well."
)


@reads_grid
def plan(
    surrogate: Annotated[
        str,
        options.argument(
            "a PUBLIC case like your grid: a file, or a name such as ieee30 or matpower:case118"
        ),
    ],
    public: Annotated[
        bool,
        typer.Option("--public", help="a surrogate that is a file is public: anybody may know it"),
    ] = False,
    nadir_error: Annotated[
        str | None, options.option("largest error of the nadir, such as 5mHz or 2% [mHz, Hz or %]")
    ] = None,
    rocof_error: Annotated[
        str | None,
        options.option("largest error of the RoCoF over 0.5 s, such as 10% [mHz/s, Hz/s or %]"),
    ] = None,
    settling_error: Annotated[
        str | None, options.option("largest error of the settling frequency [mHz, Hz or %]")
    ] = None,
    event: Annotated[
        str | None,
        options.option(
            "what the figures are of, as in gridveil simulate; the surrogate's own buses; default "
            "uniform:+10%, of a detailed model steps of 3 % of its load at up to four buses"
        ),
    ] = None,
    quantile: Annotated[
        float, typer.Option(help="share of releases that must meet all targets")
    ] = 0.9,
    model: options.ModelName = None,
    adjacency: Annotated[
        str | None,
        options.option(
            "one-asset, one-item or one-per-group, append -relative for ratios; default: "
            "one-asset, the others beside; of a detailed model one-asset-relative"
        ),
    ] = None,
    mechanism: Annotated[
        str | None, options.option("aggregates, items or topology; default: all are tried")
    ] = None,
    share_by: Annotated[
        str, typer.Option(help="how machines share a sum: equal, or rating (rated MVA)")
    ] = "equal",
    alpha: options.Alpha = None,
    bounds: options.Bounds = None,
    draws: Annotated[
        int | None,
        options.option("seeded draws of each trial; default 200, of a detailed model 50"),
    ] = None,
    plot: Annotated[
        Path | None, options.option("draw error against epsilon there (.png, .pdf or .svg)")
    ] = None,
    compute: options.ComputeName = "cpu",
    engine: options.Engine = "local",
    scheduler: options.Scheduler = None,
    workers: options.Workers = None,
    keep: options.Keep = None,
    *,
    reading: GridReading,
    json: options.Json = False,
) -> None:
    """Propose epsilon, mechanism and split, or treatments of a detailed model, that meet targets in
    mHz or %, found on a public surrogate alone.

    Never name your private grid here: a choice that depends on it would not be covered by any
    epsilon.
    """
    others = ("reading", "json", "engine", "scheduler", "workers", "keep")
    given = {name: value for name, value in locals().items() if name not in (*others, "others")}
    from gridveil.foundation.executors import crew_of
    from gridveil.workflow.plan import EVENT, PlanSettings, plan_release
    from gridveil.workflow.plan_detailed import DetailedPlan

    given |= {name: options.joined(given[name]) for name in ("alpha", "bounds")}
    settings = PlanSettings.of(**given, dynamics=reading["dynamics"], reading=reading.given())
    crew = crew_of(engine, scheduler, workers, short=True, compute=compute)
    kept = options.kept_in(keep)
    with progress_bar(quiet=json):
        planned = plan_release(settings, crew=crew, kept=kept)
    if isinstance(planned, DetailedPlan):
        from gridveil.cli.plan_detailed import show_detailed

        show_detailed(planned, event, settings, json=json)
        return
    event = event or EVENT
    command: list[str] = []
    if planned.chosen:
        said = _alpha(planned.chosen), _bounds(planned, given["bounds"])
        command = _command(planned.chosen, *said)
    if json:
        print_json(_json(planned, event, shlex.join(command) or None, plot))
        return
    _print(planned, event, command)
    if plot:
        print_text(f"Figure   {plot}")


def _command(chosen: Choice, alpha: str | None, bounds: str) -> list[str]:
    """The command line that makes the proposed release, word by word.

    bounds : those of the plan, or derived as its were.
    """
    if chosen.epsilon is None:
        return []
    given = {
        "--epsilon": f"{float(chosen.epsilon):g}",  # two digits: exact
        "--adjacency": chosen.adjacency.rule,
        "--mechanism": chosen.mechanism,
        "--split": ",".join(f"{n}={part}" for n, part in (chosen.allocation.shares or {}).items()),
        "--share-by": chosen.allocation.sharing if chosen.allocation.sharing != "equal" else "",
        "--alpha": alpha,
        "--bounds": bounds,
    }
    words = [word for name, value in given.items() if value for word in (name, value)]
    return ["gridveil", "release", "GRID", *words, *yes_if_large(chosen.epsilon)]


def _bounds(planned: Plan, given: str | None) -> str:
    """Bounds as an option says them: those that were given, and the others as the plan has them, or
    derived of the grid as they were of the surrogate.
    """
    from gridveil.grid.derived import DERIVED
    from gridveil.workflow.settings import DERIVE, pairs_of

    said = {name: text for name, text in pairs_of("bounds", given).items() if name != DERIVE}
    if planned.bounds.origin.startswith(DERIVED):
        return ",".join([DERIVE, *(f"{name}={text}" for name, text in said.items())])
    usual = {name: planned.bounds[name] for name in planned.surrogate.facts.parameters}
    said = {name: f"{own.lower:g}:{own.upper:g}" for name, own in usual.items()} | said
    return ",".join(f"{name}={text}" for name, text in said.items())


def _alpha(chosen: Choice) -> str:
    """Distances as an option says them, where they are not the usual ones."""
    from gridveil.privacy.adjacency import Adjacency

    own, usual = chosen.adjacency.alpha, Adjacency(chosen.adjacency.rule).alpha
    return ",".join(f"{name}={own[name]}" for name in own if own[name] != usual[name])


def yes_if_large(epsilon: Fraction) -> list[str]:
    """What `release` wants to hear of a large ε."""
    return ["--yes"] if epsilon > LARGE_EPSILON else []


def _print(planned: Plan, event: str, command: Sequence[str]) -> None:
    from gridveil.planning.plan import odds_in_words

    facts, at = planned.surrogate.facts, planned.reference
    print_text(
        f"Surrogate  {facts.name}, public: {len(facts.buses)} buses, "
        f"{len(facts.machines)} machines",
        f"Event      {event}: nadir {1e3 * at.nadir_hz[0]:+.1f} mHz at {at.nadir_s[0]:.1f} s, "
        f"RoCoF {1e3 * at.rocof_hz_s[0]:+.1f} mHz/s over 0.5 s, settles at "
        f"{1e3 * at.settling_hz[0]:+.1f} mHz",
    )
    print_text(
        f"Targets    {' and '.join(t.in_words for t in planned.targets)}, in "
        f"{100 * planned.quantile:g} % of releases"
    )
    print_table(
        f"least ε on {facts.name}, and the errors that {100 * planned.quantile:g} % of "
        f"{planned.draws} fresh draws stay below",
        (
            "adjacency",
            "mechanism",
            "split",
            "ε",
            "targets met",
            "nadir [mHz]",
            "RoCoF [%]",
            "settling [mHz]",
            "mode [mHz]",
            "L [p.u.² s]",
        ),
        [_row(row) for row in planned.choices],
        texts=3,
    )
    print_text(explained("ε", "α", "adjacency", "mechanism", "nadir", "RoCoF", "mode", "L"))
    print_text(
        "Control    with the public bounds alone, and no release at all: nadir off by "
        f"{planned.control['nadir_mhz']:.3g} mHz, RoCoF by "
        f"{planned.control['rocof_percent']:.3g} %, settling frequency by "
        f"{planned.control['settling_mhz']:.3g} mHz"
    )
    if planned.met_without:
        print_text(f"           {MET_WITHOUT}")
    if outside := planned.outside():
        counts = " and ".join(
            f"{count} of {len(planned.surrogate.values[name])} {name}"
            for name, count in outside.items()
        )
        print_text(
            f"Bounds     {counts} of the surrogate lie outside the public bounds: some errors "
            "stay, whatever ε is"
        )
    chosen = planned.chosen
    if chosen is None or chosen.epsilon is None:
        print_text(
            "No ε up to 100 meets the targets under this rule: loosen them, or choose larger α or "
            "narrower bounds."
        )
        print_text(NOT_BINDING)
        return
    print_text(
        f"Proposal   ε = {float(chosen.epsilon):g} under {chosen.adjacency.rule} by "
        f"{chosen.mechanism}: {odds_in_words(chosen.epsilon)}."
    )
    if chosen.epsilon > LARGE_EPSILON:
        print_text(
            f"           An ε above {LARGE_EPSILON} hides next to nothing. Loosen the targets."
        )
    print_table(
        "noise of the proposal",
        (
            "drawn",
            "ε of it",
            "noise scale",
            "typical on the surrogate",
            "scale / typical",
            "unit",
        ),
        [
            (
                row.name,
                f"{float(row.epsilon):.3g}",
                f"{row.scale:.3g}",
                f"{row.typical:.3g}",
                _ratio(planned, row),
                row.unit,
            )
            for row in planned.noise()
        ],
    )
    others = ", ".join(
        f"{float(loss):.3g} by {rule}"
        for rule, loss in planned.counted_by().items()
        if rule != chosen.adjacency.rule
    )
    print_text(
        f"Counted    the same draw costs ε = {others}. ε of two rules do not compare: choose the "
        "rule by what must be hidden."
    )
    print_command("Release    ", *command)
    print_text(NOT_BINDING)


def _ratio(planned: Plan, drawn: Any) -> str:
    relative = planned.chosen is not None and planned.chosen.adjacency.relative
    return f"{100 * drawn.scale / (1 if relative else drawn.typical):.3g} %"


def _row(choice: Choice) -> tuple[str, ...]:
    shares = choice.allocation.shares or {}
    split = ", ".join(f"{name} {share}" for name, share in shares.items())
    if choice.epsilon is None:
        return (
            choice.adjacency.rule,
            choice.mechanism,
            split,
            "above 100",
            "–",
            "–",
            "–",
            "–",
            "–",
            "–",
        )
    return (
        choice.adjacency.rule,
        choice.mechanism,
        split,
        f"{float(choice.epsilon):g}",
        f"{100 * choice.share:.1f} %",
        f"{choice.errors['nadir_mhz']:.3g}",
        f"{choice.errors['rocof_percent']:.3g}",
        f"{choice.errors['settling_mhz']:.3g}",
        f"{choice.errors['mode_frequency_mhz']:.3g}"
        if "mode_frequency_mhz" in choice.errors
        else "–",
        f"{choice.L:.1e}",
    )


def _json(planned: Plan, event: str, command: str | None, plot: Path | None) -> dict[str, Any]:
    from gridveil.planning.plan import odds_in_words

    chosen, at = planned.chosen, planned.reference
    proposal = None
    if chosen is not None and chosen.epsilon is not None:
        proposal = _choice_json(chosen) | {
            "odds": odds_in_words(chosen.epsilon),
            "noise": [
                {
                    "drawn": n.name,
                    "unit": n.unit,
                    "epsilon": str(n.epsilon),
                    "scale": n.scale,
                    "typical": n.typical,
                }
                for n in planned.noise()
            ],
            "counted_by": {rule: str(loss) for rule, loss in planned.counted_by().items()},
            "command": command,
        }
    return {
        "surrogate": planned.surrogate.facts.name,
        "event": event,
        "targets": [target_json(target) for target in planned.targets],
        "quantile": planned.quantile,
        "draws": planned.draws,
        "reference": {
            "nadir_hz": float(at.nadir_hz[0]),
            "nadir_s": float(at.nadir_s[0]),
            "rocof_hz_s": float(at.rocof_hz_s[0]),
            "settling_hz": float(at.settling_hz[0]),
        },
        "control": dict(planned.control),
        "met_without_release": planned.met_without,
        "outside_bounds": planned.outside(),
        "choices": [_choice_json(choice) for choice in planned.choices],
        "proposal": proposal,
        "curves": [
            {
                "mechanism": curve.choice.mechanism,
                "epsilon": curve.epsilon.tolist(),
                **{name: values.tolist() for name, values in curve.errors.items()},
            }
            for curve in planned.curves
        ],
        "note": NOT_BINDING,
        "plot": str(plot) if plot else None,
    }


def target_json(target: Target) -> dict[str, Any]:
    """Turn a target into JSON's types."""
    return {"figure": target.figure, "limit": target.limit, "unit": target.unit}


def _choice_json(choice: Choice) -> dict[str, Any]:
    met = choice.epsilon is not None
    return {
        "adjacency": choice.adjacency.rule,
        "mechanism": choice.mechanism,
        "draws": dict(choice.allocation.draws),
        "split": {name: str(share) for name, share in (choice.allocation.shares or {}).items()},
        "epsilon": str(choice.epsilon) if met else None,
        "share_met": choice.share if met else None,
        "share_met_low": choice.share_low if met else None,
        "errors": dict(choice.errors),
        "L_pu2_s": choice.L if met else None,
    }
