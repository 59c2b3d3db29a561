"""What `plan` prints of a detailed model: treatments, errors at each ε, and the proposal."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gridveil.cli.output import LARGE_EPSILON, print_command, print_json, print_table, print_text
from gridveil.cli.plan import MET_WITHOUT, NOT_BINDING, target_json, yes_if_large
from gridveil.cli.terms import explained

if TYPE_CHECKING:
    from gridveil.workflow.plan import PlanSettings
    from gridveil.workflow.plan_detailed import DetailedPlan, Tried

SHOWN = ("nadir_percent", "nadir_mhz", "rms_mhz")


def show_detailed(
    planned: DetailedPlan, event: str | None, settings: PlanSettings, *, json: bool
) -> None:
    """Print a plan for a detailed release."""
    command = _command(planned, settings) if planned.chosen else []
    if json:
        print_json(_json(planned, event, shlex.join(command) or None))
    else:
        _print(planned, event, command)


def _command(planned: DetailedPlan, settings: PlanSettings) -> list[str]:
    """The command line that makes the proposed release, word by word."""
    assert planned.chosen is not None
    alpha = ",".join(f"{name}={value}" for name, value in settings.alpha.items())
    given = settings.bounds if settings.bounds.family == planned.facts.family else {}
    usual = {name: own.bounds for name, own in planned.facts.parameters.items()}
    bounds = ",".join(
        f"{name}={given[name].lower:g}:{given[name].upper:g}"
        for name in usual
        if name in given and given[name] != usual[name]
    )
    zip_model = settings.reading.get("zip")
    chosen = planned.chosen
    given = {"--alpha": alpha, "--bounds": bounds, "--zip": zip_model}
    return [
        *("gridveil", "release", "GRID", "--model", "detailed"),
        *("--epsilon", str(chosen.epsilon), "--adjacency", planned.adjacency.rule),
        *(word for option in chosen.candidate.options for word in option.split()),
        *(str(word) for name, value in given.items() if value for word in (name, value)),
        *yes_if_large(chosen.epsilon),
    ]


def _print(planned: DetailedPlan, event: str | None, command: Sequence[str]) -> None:
    from gridveil.planning.plan import odds_in_words

    facts, share = planned.facts, 100 * planned.quantile
    print_text(
        f"Surrogate  {facts.name}, public: {len(facts.buses)} buses, {len(facts.machines)} units, "
        "with their devices",
        f"Events     {_events(planned, event)}",
        f"Targets    {' and '.join(t.in_words for t in planned.targets)}, in {share:g} % of "
        "releases",
    )
    few = len(planned.tried[0].errors["rms_mhz"])
    print_table(
        f"errors on {facts.name} under {planned.adjacency.rule}: mean / what {share:g} % of {few} "
        "draws stay below",
        (
            "ε",
            "treatments",
            "targets met",
            "nadir [%]",
            "nadir [mHz]",
            "RMS [mHz]",
            "moved",
        ),
        [_row(row, planned) for row in planned.tried],
        texts=2,
    )
    print_text(explained("ε", "α", "nadir", "RMS"))
    print_text(
        f"Control    nothing drawn at all, every value typical: {_figures(planned.control)}",
        f"           no noise at all, the surrogate's own entries: {_figures(planned.noiseless)}",
    )
    if planned.met_without:
        print_text(f"           {MET_WITHOUT}")
    for row in planned.checked:
        print_text(
            f"Checked    ε = {float(row.epsilon):g}, {row.candidate.name}: {planned.draws} fresh "
            f"draws, {100 * row.met(planned.targets):.0f} % meet the targets; nadir "
            f"{_both(row, 'nadir_percent', planned)} %, {_both(row, 'nadir_mhz', planned)} mHz, "
            f"RMS {_both(row, 'rms_mhz', planned)} mHz"
        )
    chosen = planned.chosen
    if chosen is None:
        print_text(
            f"No ε up to {float(planned.tried[-1].epsilon):g} meets the targets: loosen them, or "
            "choose larger α."
        )
    else:
        print_text(
            f"Proposal   ε = {float(chosen.epsilon):g} under {planned.adjacency.rule}, treatments: "
            f"{chosen.candidate.name}: {odds_in_words(chosen.epsilon)}."
        )
        if chosen.epsilon > LARGE_EPSILON:
            print_text(
                f"           An ε above {LARGE_EPSILON} hides next to nothing. Loosen the targets."
            )
        for line in chosen.candidate.toml.splitlines():
            print_text(f"           {line}")
        print_command("Release    ", *command)
    print_text(NOT_BINDING)


def _events(planned: DetailedPlan, event: str | None) -> str:
    if event:
        return event
    from gridveil.workflow.plan_detailed import STEP

    places = ", ".join(bus for one in planned.events for step in one.steps for bus in step.change)
    return f"{100 * STEP:g} % of all load added at {places}, one by one; errors are means over them"


def _both(row: Tried, error: str, planned: DetailedPlan) -> str:
    return f"{row.mean(error):.3g} / {row.quantile(error, planned.quantile):.3g}"


def _row(row: Tried, planned: DetailedPlan) -> tuple[str, ...]:
    return (
        f"{float(row.epsilon):g}",
        row.candidate.name,
        f"{100 * row.met(planned.targets):.0f} %",
        *(_both(row, error, planned) for error in SHOWN),
        f"{100 * row.moved:.0f} %",
    )


def _figures(errors: Any) -> str:
    return (
        f"nadir off by {errors['nadir_percent']:.3g} % or {errors['nadir_mhz']:.3g} mHz, RMS "
        f"{errors['rms_mhz']:.3g} mHz"
    )


def _json(planned: DetailedPlan, event: str | None, command: str | None) -> dict[str, Any]:
    from gridveil.planning.plan import odds_in_words

    chosen = planned.chosen
    proposal = None
    if chosen is not None:
        proposal = _tried_json(chosen, planned) | {
            "odds": odds_in_words(chosen.epsilon),
            "toml": chosen.candidate.toml,
            "command": command,
        }
    return {
        "surrogate": planned.facts.name,
        "model": planned.facts.family,
        "events": event or [dict(s.change) for one in planned.events for s in one.steps],
        "targets": [target_json(target) for target in planned.targets],
        "adjacency": planned.adjacency.rule,
        "quantile": planned.quantile,
        "draws": planned.draws,
        "control": dict(planned.control),
        "noiseless": dict(planned.noiseless),
        "met_without_release": planned.met_without,
        "choices": [_tried_json(row, planned) for row in planned.tried],
        "checked": [_tried_json(row, planned) for row in planned.checked],
        "proposal": proposal,
        "note": NOT_BINDING,
    }


def _tried_json(row: Tried, planned: DetailedPlan) -> dict[str, Any]:
    return {
        "name": row.candidate.name,
        "treatments": dict(row.candidate.treatments),
        "split": {name: str(share) for name, share in row.candidate.item_shares.items()},
        "epsilon": str(row.epsilon),
        "share_met": row.met(planned.targets),
        "moved": row.moved,
        "errors": {
            name: {"mean": row.mean(name), "quantile": row.quantile(name, planned.quantile)}
            for name in row.errors
        },
    }
