"""The guided path: `gridveil start GRID` asks what a release needs to know, and charges nothing
before the last yes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import count
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from gridveil.cli import options
from gridveil.cli.foreseen import print_bounds, print_outline
from gridveil.cli.options import GridReading, reads_grid
from gridveil.cli.output import note_outcome, print_line, print_notice, print_text, progress_bar
from gridveil.cli.release import dialogue, print_released
from gridveil.cli.terms import explained
from gridveil.foundation.errors import GridveilError, OptionError

if TYPE_CHECKING:
    from gridveil.grid.facts import GridFacts, TableFacts
    from gridveil.privacy.adjacency import Adjacency
    from gridveil.workflow.bounds import Chosen
    from gridveil.workflow.foresee import Foreseen
    from gridveil.workflow.settings import ReleaseSettings
    from gridveil.workflow.start import Answers

T = TypeVar("T")
LEAST = 0.25  # ε that is proposed at least
NOTHING = "Nothing was written and nothing was charged."


@reads_grid
def start(
    grid: options.Grid,
    write: Annotated[
        Path, typer.Option(help="the settings file to write", show_default=True)
    ] = Path("release.toml"),
    model: options.ModelName = None,
    *,
    reading: GridReading,
) -> None:
    """Ask, step by step, what a release needs to know; write one commented release.toml, and make
    the release if you say so.

    Nothing is written before the last question but one, and nothing is charged before the last.
    """
    note_outcome(NOTHING)
    _check_terminal(write)
    try:
        _guide(grid, write, model, reading)
    except (typer.Abort, EOFError):  # Ctrl-C or Ctrl-D at a question
        raise GridveilError(
            "Called off.", outcome=NOTHING, remedy="Begin again with gridveil start."
        ) from None


def _check_terminal(write: Path) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise OptionError(
            "gridveil start asks questions, and there is no terminal to ask at.",
            outcome=NOTHING,
            remedy="Without one: gridveil release GRID --epsilon EPSILON --bounds derived "
            "--dry-run",
        )
    if write.exists():
        raise OptionError(
            f"{write} is there already.",
            outcome=NOTHING,
            remedy="Move it away, or name another file with --write.",
        )


def _guide(grid: str, write: Path, model: str | None, reading: GridReading) -> None:
    from gridveil.workflow.opening import open_named
    from gridveil.workflow.settings import GridSettings
    from gridveil.workflow.start import Answers, write_toml

    said = {name: value for name, value in reading.items() if value is not None}
    answers = Answers().adding(grid=(grid, "The grid: a file, or the name of a case."))
    for name, value in said.items():
        text = str(value) if isinstance(value, Path) else value
        answers = answers.adding(**{name: (text, "How the grid's file is read.")})
    with progress_bar(quiet=False):
        opened = GridSettings.of(reading, grid=grid, model=model or "auto")
        facts = open_named(opened).facts
    family = facts.family
    print_text(
        f"{facts.name}: {len(facts.buses)} buses, {len(facts.edges)} lines, "
        f"{len(facts.machines)} machines; a {family} model"
        + (", with its controls." if family == "detailed" else "."),
        "Six questions follow. Nothing is charged before the last. Ctrl-C leaves at any time.",
    )
    answers = answers.adding(model=(family, "The kind of model: swing or detailed."))
    answers, mechanism = _ask_hidden(answers, family)
    answers, chosen = _ask_bounds(answers, facts, mechanism)
    answers = _ask_record(answers)
    answers = _ask_epsilon(answers, facts, chosen, mechanism)
    answers, settings, foreseen = _ask_account(answers, facts)
    print_outline(foreseen)
    total = _ask_budget(foreseen)
    command = f"gridveil release --config {quote(str(write))}"
    _head("The file")
    if not typer.confirm(f"Write these settings to {write}?", default=True):
        raise typer.Abort
    write_toml(write, answers, command)
    note_outcome(f"{write} was written; nothing was charged.")
    print_text(f"Written: {write}. All that would be charged, drawn and published:")
    print_line("", f"{command} --dry-run")
    _head("The release")
    if _agrees(f"Make the release now? It charges ε = {foreseen.cost} to {foreseen.lineage}"):
        _make(settings, foreseen, total)
        return
    print_text("Nothing was charged.")
    if foreseen.account is None and total > foreseen.cost:
        print_text(f"The file holds no budget. After the first release, raise it to ε = {total}:")
        print_line("", f"gridveil ledger budget {quote(foreseen.lineage)} --epsilon {total}")


def _agrees(question: str) -> bool:
    """Ask the last question; one that is left without an answer is a no."""
    try:
        return typer.confirm(question, default=False)
    except typer.Abort:
        print_text("")
        return False


def _head(title: str) -> None:
    print_text("", f"— {title} —")


def _until(ask: Callable[[], T]) -> T:
    """Ask until the answer can be used; say each time what was wrong with it."""
    while True:
        try:
            return ask()
        except GridveilError as error:
            print_notice(str(error))


def _ask_hidden(answers: Answers, family: str) -> tuple[Answers, str | None]:
    from gridveil.workflow.start import HIDDEN

    _head("1. What must be hidden?")
    ways = HIDDEN[family]
    print_text(*(f"{n}  {words}" for n, (words, _, _) in enumerate(ways, start=1)))

    def ask() -> int:
        text = typer.prompt("Hide", default="1")
        if text not in {str(n + 1) for n in range(len(ways))}:
            raise OptionError(f"{text!r} is none of them.", expected=f"a number to {len(ways)}")
        return int(text) - 1

    words, rule, mechanism = ways[_until(ask)]
    why = f"Neighbours, which the release must not tell apart, differ in {words}."
    return answers.adding(
        adjacency=(rule, why),
        mechanism=(mechanism, "Draw sums of machines, and show nothing of the network.")
        if mechanism
        else None,
    ), mechanism


def _ask_bounds(
    answers: Answers, facts: TableFacts, mechanism: str | None
) -> tuple[Answers, Chosen]:
    from gridveil.grid.derived import DERIVED
    from gridveil.grid.parameters import Bounds
    from gridveil.workflow.bounds import choose_bounds
    from gridveil.workflow.settings import DERIVE, bounds_over, derives, pairs_of

    _head("2. Public bounds")
    rule = answers.settings["adjacency"]

    def chosen_of(text: str | None) -> Chosen:
        given, others = bounds_over(Bounds(), text), derives(text)
        return choose_bounds(
            given, facts, derive_others=others, rule=rule, topology=mechanism == "topology"
        )

    text, chosen = None, chosen_of(None)
    while True:
        print_bounds(chosen, facts, _adjacency(answers, chosen, facts.family).alpha)
        for name, words in chosen.bounds.facts.items():
            print_text(f"Public with them: {name}: {words}")
        print_text(
            "Bounds are published, and must not come from the grid's own values. Other ones: "
            f"such as {next(iter(facts.parameters))}=1:100, from a public source."
        )
        answer = typer.prompt("Enter to accept, or give bounds", default="", show_default=False)
        if not answer:
            break
        try:
            text = ",".join(
                f"{n}={v}" for n, v in pairs_of("bounds", answer).items() if n != DERIVE
            )
            if chosen.bounds.origin.startswith(DERIVED):
                text = ",".join(filter(None, (DERIVE, text)))
            chosen = chosen_of(text)
        except GridveilError as error:
            print_notice(str(error))
    if chosen.bounds.origin.startswith(DERIVED):
        text = text or DERIVE
    why = "Public bounds: derived from public facts, but for those given."
    return answers.adding(bounds=(text, why) if text else None), chosen


def _ask_record(answers: Answers) -> Answers:
    from gridveil.inference.records import read_declaration

    _head("3. A public record")
    print_text(
        "A measured, published frequency record can be fitted: the guarantee is then conditional "
        "on it. It is declared in a TOML file (gridveil inspect shows what it holds)."
    )

    def ask() -> str:
        text = typer.prompt("Its TOML, or Enter for none", default="", show_default=False)
        if text:
            read_declaration(Path(text))
        return text

    path = _until(ask)
    return answers.adding(trajectory=(path, "A public record to fit to.") if path else None)


def _ask_epsilon(
    answers: Answers, facts: TableFacts, chosen: Chosen, mechanism: str | None
) -> Answers:
    from gridveil.planning.plan.targets import Target
    from gridveil.privacy.epsilon import exact

    _head("4. Which error is tolerable?")
    print_text(explained("nadir", "ε"))

    def ask_error() -> str:
        text = typer.prompt("Largest error of the nadir [mHz]", default="20").strip()
        error = text if text.lower().endswith("hz") else f"{text}mHz"
        Target.parse("nadir", error)
        return error

    error = _until(ask_error)
    treatments = None
    if facts.family == "detailed":
        usual, split, treatments = _until(lambda: _planned_detailed(answers, error))
    else:
        usual, split = _planned(answers, facts, chosen, mechanism, error)  # pyright: ignore[reportArgumentType]

    def ask_epsilon() -> tuple[Fraction, str]:
        text = typer.prompt("ε of the release, exact", default=usual)
        return exact(text), text

    epsilon, shown = _until(ask_epsilon)
    print_text(f"ε = {epsilon}: an observer's odds change by e^{float(epsilon):g} at most.")
    return answers.adding(
        epsilon=(str(epsilon), f"Privacy loss. Asked for: a nadir within {error}."),
        split=(split, "Shares of ε, as planned.") if split and usual == shown else None,
        treatments=(treatments, "What is done with each parameter, as planned.")
        if treatments
        else None,
    )


def _planned(
    answers: Answers, facts: GridFacts, chosen: Chosen, mechanism: str | None, error: str
) -> tuple[str, str | None]:
    """ε and its shares by a plan, or the usual ε."""
    from gridveil.workflow.start import planned_epsilon

    drawn = mechanism or ("items" if "trajectory" in answers.settings else "aggregates")
    with progress_bar(quiet=False):
        adjacency = _adjacency(answers, chosen, facts.family)
        planned = planned_epsilon(facts, chosen.bounds, adjacency, drawn, error)
    nadirs = ", ".join(f"{nadir:.0f}" for nadir in planned.nadirs_mhz)
    least = ", ".join("none" if own is None else f"{own:g}" for own in planned.epsilons)
    print_text(
        f"Tried on {len(planned.nadirs_mhz)} tables drawn from the bounds, whose nadirs are "
        f"{nadirs} mHz after 10 % more load; the grid's own values have no part in it. "
        f"The least ε of each: {least}."
    )
    found = planned.chosen
    if found is None or found.epsilon is None:
        print_text(
            f"No ε up to 100 meets {error} on all of them: the noise that hides so much is larger."
        )
        return "1", None
    epsilon = float(found.epsilon)
    print_text(
        f"ε = {epsilon:g} meets {error} on all, there in {100 * found.share:.0f} % of draws."
    )
    if epsilon < LEAST:
        print_text(f"Below {LEAST:g}, little else of the model is left: that is proposed.")
        return f"{LEAST:g}", None
    shares = found.allocation.shares or {}
    return f"{epsilon:g}", ",".join(f"{name}={share}" for name, share in shares.items()) or None


def _planned_detailed(answers: Answers, error: str) -> tuple[str, str | None, str | None]:
    """ε, shares and treatments by a plan on a public case with devices, or the usual ε."""
    from gridveil.workflow.plan import PlanSettings, plan_release

    print_text(
        "ε = 1 is a usual start. A plan finds one for that error on a public case with devices, "
        "in minutes. Never name your own grid here."
    )
    case = typer.prompt("A public case to plan on, or Enter", default="", show_default=False)
    if not case:
        return "1", None, None
    rule = answers.settings["adjacency"]
    with progress_bar(quiet=False):
        settings = PlanSettings.of(
            surrogate=case, nadir_error=error, model="detailed", adjacency=rule
        )
        found: Any = plan_release(settings).chosen
    if found is None:
        print_text(f"No ε that was tried meets {error}.")
        return "1", None, None
    print_text(f"ε = {found.epsilon} meets {error} there, with: {found.candidate.name}.")
    said = [
        ",".join(f"{name}={value}" for name, value in pairs.items()) or None
        for pairs in (found.candidate.item_shares, found.candidate.treatments)
    ]
    return str(found.epsilon), said[0], said[1]


def _adjacency(answers: Answers, chosen: Chosen, family: str) -> Adjacency:
    from gridveil.workflow.settings import adjacency_over

    return adjacency_over(None, answers.settings["adjacency"], chosen.alpha, family)


def _ask_account(answers: Answers, facts: TableFacts) -> tuple[Answers, ReleaseSettings, Foreseen]:
    from gridveil.foundation.archive import check_free
    from gridveil.privacy.ledger.accounts import check_lineage
    from gridveil.workflow.foresee import foresee
    from gridveil.workflow.settings import ReleaseSettings

    _head("5. Where it goes")

    def ask_lineage() -> str:
        name = typer.prompt("Account of the ledger to charge", default=Path(facts.name).stem)
        check_lineage(name)
        return name

    def ask_out() -> str:
        out = typer.prompt("Bundle, a folder or a .zip", default=_free("release"))
        check_free(Path(out))
        return out

    answers = answers.adding(
        lineage=(_until(ask_lineage), "The account that is charged, for all versions of a grid."),
        out=(_until(ask_out), "The bundle to write."),
    )
    settings = ReleaseSettings.of(answers.settings)
    with progress_bar(quiet=False) as bar:
        foreseen = foresee(settings, dialogue(bar, quiet=False, yes=True))
    return answers, settings, foreseen


def _free(name: str) -> str:
    """A name that nothing has yet: release, release-2, …"""
    names = (name if number == 1 else f"{name}-{number}" for number in count(1))
    return next(free for free in names if not Path(free).exists())


def _ask_budget(foreseen: Foreseen) -> Fraction:
    """The budget of a new account; of one that is there, its own."""
    from gridveil.privacy.epsilon import exact

    if foreseen.account is not None:
        return foreseen.account.epsilon
    _head("6. The budget")
    print_text("All releases of this grid together may spend this much; it may be raised later.")

    def ask() -> Fraction:
        total = exact(typer.prompt("Budget ε", default=str(foreseen.cost)))
        if total < foreseen.cost:
            raise OptionError(f"A budget of {total} does not cover ε = {foreseen.cost}.")
        return total

    return _until(ask)


def _make(settings: ReleaseSettings, foreseen: Foreseen, total: Fraction) -> None:
    """Charge, draw and write."""
    from gridveil.privacy.ledger import Ledger
    from gridveil.workflow.release import release_grid

    if foreseen.account is None and total > foreseen.cost:
        book = Ledger(settings.ledger_place, witness=settings.witness)
        book.set_budget(foreseen.lineage, foreseen.guarantee.adjacency, total)
    with progress_bar(quiet=False) as bar:
        done = release_grid(settings, dialogue(bar, quiet=False, yes=True))
    print_released(done)
