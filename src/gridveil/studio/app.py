"""The studio's pages: each handler reads a form, calls one function, and renders a template."""

from __future__ import annotations

import re
from contextlib import suppress
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import Any

from anyio import from_thread
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape
from starlette.applications import Starlette
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route

from gridveil.foundation.archive import check_free
from gridveil.foundation.errors import NOTHING_SPENT, GridveilError, NoLedger, OptionError
from gridveil.foundation.page import house_style
from gridveil.foundation.shown import shown
from gridveil.privacy.epsilon import exact
from gridveil.privacy.ledger import Ledger
from gridveil.publication.export import FORMATS
from gridveil.publication.signing import is_encrypted, key_folder
from gridveil.studio import recipient
from gridveil.studio.draft import LARGE, NOTHING, STOPS, Draft, to_script, to_toml
from gridveil.studio.forms import form
from gridveil.studio.guard import UPLOAD_BYTES, Guard, Keys, TooLarge
from gridveil.studio.releases import Releases
from gridveil.studio.state import Studio, file_name
from gridveil.workflow.demo import foresee_demo
from gridveil.workflow.foresee import Foreseen, foresee

BUILT_IN = ("ieee30", "star5")
READING = ("model", "inertia", "damping")  # what the page offers; a TOML holds the rest


def create_app(studio: Studio, keys: Keys, limit: int = UPLOAD_BYTES) -> Any:
    """The studio behind its guard."""
    pages = Pages(studio)
    routes = [
        Route("/", pages.home),
        Route("/grid", pages.grid),
        Route("/grid", pages.choose_grid, methods=["POST"]),
        Route("/hide", pages.hide),
        Route("/hide", pages.choose, methods=["POST"]),
        Route("/hide/record", pages.choose_record, methods=["POST"]),
        Route("/hide/preview", pages.preview, methods=["POST"]),
        Route("/release", pages.release),
        Route("/release", pages.begin, methods=["POST"]),
        Route("/releases/{id}", pages.look),
        Route("/releases/{id}/events", pages.events),
        Route("/releases/{id}/cancel", pages.cancel, methods=["POST"]),
        Route("/releases/{id}/signoff", pages.sign_off, methods=["POST"]),
        Route("/releases/{id}/use", pages.use, methods=["POST"]),
        Route("/releases/{id}/files/{name}", pages.file),
        Route("/again", pages.again, methods=["POST"]),
        Route("/ledger", pages.ledger),
        Route("/static/{name}", static),
        *recipient.routes(pages),
    ]
    handlers: Any = {
        GridveilError: pages.refused,
        TooLarge: pages.too_large,
        HTTPException: pages.missing,
        Exception: pages.failed,
    }
    return Guard(Starlette(routes=routes, exception_handlers=handlers), keys, limit)


def static(request: Request) -> Response:
    """The house's style, and the studio's own style and script."""
    name = request.path_params["name"]
    kinds = {"page.css": "text/css", "studio.css": "text/css", "studio.js": "text/javascript"}
    if name not in kinds:
        raise HTTPException(404)
    if name == "page.css":
        return Response(house_style(), media_type=kinds[name])
    content = files("gridveil.studio").joinpath("static", name).read_bytes()
    return Response(content, media_type=kinds[name])


class Pages(Releases):
    """The pages of one studio."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self._env = Environment(
            loader=PackageLoader("gridveil.studio"), autoescape=True, trim_blocks=True
        )
        self._env.filters["shown"] = shown
        self._env.filters["as"] = _formatted
        self._env.filters["options"] = _unbroken

    def render(self, name: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Fill a template in."""
        draft = self.studio.draft
        steps = [
            ("/grid", "Grid", True),
            ("/hide", "What to hide", draft.facts is not None),
            ("/release", "Release", draft.valid),
            (None, "Look and download", False),
        ]
        known = {
            "demo": self.studio.demo,
            "draft": draft,
            "steps": steps,
            "summary": draft.summary(),
        }
        return HTMLResponse(self._env.get_template(name).render(known | values), status)

    # What went wrong.

    def refused(self, request: Request, error: Exception) -> Response:
        """Show what was wrong, what did not happen, and the next step."""
        assert isinstance(error, GridveilError)
        if request.url.path == "/hide/preview":
            return self.render("error_part.html", error=error, status=422)
        name = {"/grid": "grid.html", "/hide": "hide.html", "/hide/record": "hide.html"}
        page = name.get(request.url.path)
        if page is None or (page == "hide.html" and self.studio.draft.facts is None):
            return self.render("error.html", error=error, status=422)
        more = self._of_hide() if page == "hide.html" else self._of_grid()
        if page == "hide.html":
            more["values"] |= getattr(request.state, "typed", {})
        return self.render(page, error=error, status=422, **more)

    def too_large(self, request: Request, error: Exception) -> Response:
        """Say what an upload may have at most."""
        del error
        limit = f"{UPLOAD_BYTES // 2**20} MiB"
        return self.refused(
            request,
            OptionError(
                f"This upload is larger than {limit}.",
                outcome=f"It was not kept. {NOTHING}",
                remedy="Give the file to the gridveil command itself.",
            ),
        )

    def missing(self, request: Request, error: Exception) -> Response:
        """Say that there is no such page."""
        del request
        status = getattr(error, "status_code", 404)
        words = GridveilError("There is no such page.", outcome="Nothing was done.")
        return self.render("error.html", error=words, status=status)

    def failed(self, request: Request, error: Exception) -> Response:
        """Say that something broke, without its own words: they might hold a private value."""
        del request
        problem = GridveilError(
            f"Internal error, {type(error).__name__}.",
            outcome="What was charged, the ledger's page says.",
        )
        return self.render("error.html", error=problem, status=500)

    # 1. The grid.

    def home(self, request: Request) -> Response:
        """What can be done, and what became of earlier releases."""
        del request
        jobs = [job for job in self.studio.jobs.all() if "signoff" not in job.about]
        told = [(job, job.ended()) for job in jobs]
        return self.render("home.html", jobs=told, at="home")

    def _of_grid(self) -> dict[str, Any]:
        return {"at": "grid", "built_in": BUILT_IN, "limit": UPLOAD_BYTES}

    def grid(self, request: Request) -> Response:
        """Choose a grid, and see the chosen one drawn."""
        del request
        return self.render("grid.html", **self._of_grid())

    @form
    def choose_grid(self, request: Request, given: FormData, uploads: dict[str, Any]) -> Response:
        """Read a grid and keep its public facts."""
        del request
        name = str(given.get("name") or "").strip()
        reading: dict[str, Any] = {n: v for n in READING if (v := str(given.get(n) or "").strip())}
        reading |= {n: _number(n, reading[n]) for n in ("inertia", "damping") if n in reading}
        if given.get("publish_loads"):
            reading["publish_loads"] = True
        grids, beside = uploads.get("file", []), uploads.get("beside", [])
        if bool(grids) == bool(name):
            raise OptionError(
                "It is not said which grid is meant.",
                expected="either a name or a file",
                outcome=NOTHING,
            )
        shown_as = name
        if grids:
            kept = self.studio.keep([*grids[:1], *beside])
            shown_as = file_name(grids[0][0])
            name = str(kept[shown_as])
            own = [path for other, path in kept.items() if other != shown_as]
            if own:
                reading["dynamics"] = str(own[0])
        elif "/" in name or "\\" in name or name.startswith("."):
            raise OptionError(
                "A grid of this machine is given as a file here, not by its path.",
                expected="a name such as ieee30 or matpower:case118",
                outcome=NOTHING,
            )
        with self.studio.lock:
            self.studio.draft.choose_grid(name, shown_as, reading)
        return RedirectResponse("/grid", 303)

    # 2. What to hide.

    def _of_hide(self) -> dict[str, Any]:
        draft = self.studio.draft
        account, chosen = draft.account(), draft.chosen_bounds()
        return {
            "at": "hide",
            "values": dict(draft.choices),
            "stops": STOPS,
            "chosen": chosen,
            "account": account,
            "alpha": draft.adjacency().alpha,
            "formats": FORMATS,
        }

    def hide(self, request: Request) -> Response:
        """Choose what to hide; opens when a grid was read."""
        del request
        if self.studio.draft.facts is None:
            return RedirectResponse("/grid", 303)
        return self.render("hide.html", **self._of_hide())

    def _choices(self, given: FormData) -> dict[str, Any]:
        names = ("hide", "epsilon", "mechanism", "bounds", "lineage")
        choices: dict[str, Any] = {n: str(given.get(n) or "").strip() for n in names if n in given}
        return choices | {"formats": [str(one) for one in given.getlist("formats")]}

    @form
    def choose(self, request: Request, given: FormData, uploads: dict[str, Any]) -> Response:
        """Take the choices of step 2, and go on if they hold together."""
        del uploads
        draft, request.state.typed = self._begun(), self._choices(given)
        with self.studio.lock:
            draft.choose(request.state.typed)
            draft.valid = given.get("then") == "next"
        return RedirectResponse("/release" if draft.valid else "/hide", 303)

    @form
    def choose_record(self, request: Request, given: FormData, uploads: dict[str, Any]) -> Response:
        """Read a public record, or leave it out again."""
        del request
        draft = self._begun()
        if given.get("then") == "none":
            with self.studio.lock:
                draft.choose_record(None)
            return RedirectResponse("/hide#record", 303)
        if given.get("then") == "demo" and self.studio.demo:
            toml: Path | None = self.studio.record
        else:
            kept = self.studio.keep(uploads.get("record", []))
            toml = next((path for name, path in kept.items() if name.endswith(".toml")), None)
        if toml is None:
            raise OptionError(
                "There is no TOML among these files that says what the record is.",
                expected="the record's TOML and its CSV or COMTRADE files, together",
                outcome=NOTHING,
                remedy="Write one with gridveil record init RECORD.csv, and edit it.",
            )
        with self.studio.lock:
            draft.choose_record(toml)
        return RedirectResponse("/hide#record", 303)

    @form
    def preview(self, request: Request, given: FormData, uploads: dict[str, Any]) -> Response:
        """What an ε would mean, on a public surrogate; what takes long, only if asked for it, and
        until nobody waits for it.
        """
        del uploads
        with self.studio.lock:
            tried = self._begun().tried(self._choices(given))

        def goes_on() -> bool:
            return bool(given.get("long")) and not from_thread.run(request.is_disconnected)

        with self.studio.trying:
            found, trade_off, summary = tried.preview(goes_on)
        shown_: dict[str, Any] = {"preview": found, "trade_off": trade_off, "summary": summary}
        return self.render("preview.html", large=LARGE, **shown_)

    def _begun(self) -> Draft:
        if self.studio.draft.facts is None:
            raise OptionError(
                "No grid was chosen yet.", outcome=NOTHING, remedy="Begin with step 1."
            )
        return self.studio.draft

    # 3. The release.

    def _place(self) -> Path:
        draft = self.studio.draft
        stem = "".join(c if c.isalnum() or c in "-_" else "-" for c in draft.choices["lineage"])
        return (self.studio.out / f"{stem[:60]}-{draft.id}.zip").absolute()

    def _foreseen(self) -> Foreseen:
        """What the release would charge, draw and publish."""
        check_free(place := self._place())
        settings = self.studio.draft.settings(place)
        return foresee_demo(settings) if self.studio.demo else foresee(settings)

    def release(self, request: Request) -> Response:
        """Show what would be charged and published; opens when step 2 is valid."""
        del request
        draft = self.studio.draft
        if not draft.valid:
            return RedirectResponse("/hide" if draft.facts is not None else "/grid", 303)
        if self.studio.jobs.get(draft.id) is not None:
            return RedirectResponse(f"/releases/{draft.id}", 303)
        try:
            with self.studio.lock:
                foreseen = self._foreseen()
        except GridveilError as error:
            return self.render("release.html", at="release", error=error, foreseen=None, status=422)
        return self.render(
            "release.html",
            at="release",
            foreseen=foreseen,
            encrypted=is_encrypted(key_folder()),
            large=foreseen.guarantee.epsilon > LARGE,
        )

    @form
    def begin(self, request: Request, given: FormData, uploads: dict[str, Any]) -> Response:
        """Start the release that was shown, once."""
        del request, uploads
        studio, draft, name = self.studio, self.studio.draft, str(given.get("id") or "")
        with studio.lock:
            if studio.jobs.get(name) is not None:  # a second yes: another tab, or a reload
                return RedirectResponse(f"/releases/{name}", 303)
            if name != draft.id or not draft.valid:
                raise OptionError(
                    "The choices were changed since this page was opened, in another tab say.",
                    outcome=NOTHING_SPENT,
                    remedy="Look at step 3 again.",
                )
            if (other := studio.jobs.running()) is not None:
                raise OptionError(
                    f"Another release, {other.about['name']}, is being made.",
                    outcome=NOTHING_SPENT,
                    remedy="Wait for it, or cancel it.",
                )
            if given.get("yes") != "yes":
                raise OptionError("The last yes was not given.", outcome=NOTHING_SPENT)
            budget = self._set_budget(given) if not studio.demo else None
            studio.out.mkdir(parents=True, exist_ok=True)
            passphrase = str(given.get("passphrase") or "")
            job = studio.jobs.begin(draft.id, self._config(), self._about(budget), passphrase)
        return RedirectResponse(f"/releases/{job.id}", 303)

    def _set_budget(self, given: FormData) -> Fraction | None:
        """Check the charge once more, and give a new account its budget; None: it has one."""
        foreseen = self._foreseen()
        if foreseen.account is not None:
            return None
        total = exact(str(given.get("budget") or foreseen.cost), name="the budget")
        if total < foreseen.cost:
            raise OptionError(
                f"A budget of {total} does not cover ε = {foreseen.cost}.", outcome=NOTHING_SPENT
            )
        if total > foreseen.cost:
            book = Ledger(self.studio.ledger)
            book.set_budget(foreseen.lineage, foreseen.guarantee.adjacency, total)
        return total

    def _config(self) -> str:
        draft = self.studio.draft
        answers = draft.answers().adding(
            out=(str(self._place()), "The bundle to write."), ledger=(draft.ledger, "The ledger.")
        )
        return answers.to_toml()

    def _about(self, budget: Fraction | None) -> dict[str, Any]:
        draft, demo = self.studio.draft, self.studio.demo
        before = 0
        with suppress(NoLedger):
            charged = Ledger(draft.ledger, create=False).entries()
            before = max((entry.number for entry in charged), default=0)
        names = {draft.grid: draft.shown}
        if dynamics := draft.reading.get("dynamics"):
            names[str(dynamics)] = Path(dynamics).name
        if draft.record:
            names[str(draft.record.toml)] = draft.record.toml.name
        return {
            "name": draft.shown,
            "lineage": draft.choices["lineage"],
            "epsilon": draft.choices["epsilon"],
            "bundle": str(self._place()),
            "ledger": draft.ledger,
            "entries_before": before,
            "demo": demo,
            "toml": to_toml(
                draft.answers(),
                names,
                "# Written by gridveil studio. Make the same release with: "
                "gridveil release --config release.toml",
            ),
            "script": to_script(draft.answers(), names, budget),
            "summary": draft.summary(),
        }

    @form
    def again(self, request: Request, given: FormData, uploads: dict[str, Any]) -> Response:
        """Begin another release; the choices of the last are left behind."""
        del request, given, uploads
        with self.studio.lock:
            self.studio.draft = Draft(self.studio.ledger)
        return RedirectResponse("/grid", 303)

    # The ledger.

    def ledger(self, request: Request) -> Response:
        """Every account, what is left of it, and every draw."""
        del request
        try:
            book = Ledger(self.studio.ledger, create=False)
        except NoLedger:
            return self.render("ledger.html", at="ledger", place=self.studio.ledger, accounts=None)
        return self.render(
            "ledger.html",
            at="ledger",
            place=book.location,
            accounts=list(book.accounts().values()),
            entries=book.entries(),
            versions=book.versions(),
            problems=book.verify(),
        )


def _formatted(value: Any, how: str) -> str:
    """A number with a true minus sign."""
    return (how % float(value)).replace("-", "−")


def _unbroken(words: str) -> Markup:
    """Words whose options (--name) are not broken at the end of a line."""
    marked = re.sub(r"(--[a-z-]+)", r'<span class="whole">\1</span>', str(escape(words)))
    return Markup(marked)  # noqa: S704 - escaped above


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise OptionError(
            f"{name} is no number.", expected="a number such as 10", outcome=NOTHING
        ) from None
