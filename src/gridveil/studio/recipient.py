"""The recipient's page: a bundle that was dropped is verified, simulated, replayed and exported. No
source, no vault.
"""

from __future__ import annotations

import io
import secrets
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from gridveil.foundation.errors import GridveilError, OptionError
from gridveil.publication.bundle import Report, load, verify
from gridveil.publication.card import CARD
from gridveil.publication.export import FORMATS, export
from gridveil.publication.release import Release, reference_event
from gridveil.publication.replay import fitted_answer, released_words
from gridveil.publication.unpack import read_files
from gridveil.studio.drawing import DEVIATION, Chart, chart, frequencies
from gridveil.studio.forms import form
from gridveil.studio.guard import ALONE
from gridveil.studio.state import Received, Studio
from gridveil.workflow.bundles import Simulated, replayed, simulate_bundle

if TYPE_CHECKING:
    from gridveil.studio.app import Pages

HORIZON_S = 30.0
MOST_REPLAYS = 6  # that are drawn


@dataclass(frozen=True)
class Opened:
    """A bundle that verifies: its report, its model, and what may be asked of it."""

    report: Report
    release: Release
    formats: tuple[str, ...]
    card: bool

    @property
    def event(self) -> str:
        """The bundle's own reference event."""
        return reference_event(self.release.model)


def opened(bundle: Path) -> Opened:
    """Verify a bundle and load it."""
    report, release = verify(bundle), load(bundle)
    return Opened(report, release, tuple(FORMATS), _has_card(report))


def _has_card(report: Report) -> bool:
    """Whether `verify` made the card again and found it alike: no script of others is served."""
    return CARD in report.files and CARD not in report.not_recomputed


def part(bundle: Path, name: str) -> Response:
    """The whole bundle, its card, or an export, made now."""
    if name == "bundle.zip":
        return _attached(bundle.read_bytes(), bundle.name)
    if name == CARD:
        if not _has_card(verify(bundle)):
            raise HTTPException(404)
        card = read_files(bundle).files[CARD]
        headers = {"Content-Security-Policy": ALONE}
        return Response(card, media_type="text/html; charset=utf-8", headers=headers)
    format_ = name.removeprefix("export-").removesuffix(".zip")
    if format_ not in FORMATS:
        raise HTTPException(404)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, content in export(load(bundle), format_).items():
            archive.writestr(file, content)
    return _attached(packed.getvalue(), f"{bundle.stem}-{format_}.zip")


def _attached(content: bytes, name: str) -> Response:
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in name)
    headers = {"Content-Disposition": f'attachment; filename="{plain}"'}
    return Response(content, media_type="application/zip", headers=headers)


def received(studio: Studio, name: str, path: Path) -> Received:
    """Verify a bundle, and keep it in the list of those that may be looked at."""
    one = Received(secrets.token_hex(8), name, path, verify(path))
    studio.received[one.id] = one
    return one


def answered(bundle: Path, event: str) -> tuple[Simulated, Chart]:
    """Simulate an event, and draw the machines' frequencies with their bands."""
    done = simulate_bundle(bundle, event, horizon_s=HORIZON_S, dt_s=0.02)
    return done, frequencies(done.trajectory, f"Frequency after {event}")


def replay_charts(release: Release) -> list[Chart]:
    """Draw records that a release was fitted to, beside what it answered before and after."""
    mhz, drawn = 1e3 * release.model.frequency_hz, list[Chart]()
    for one in release.replays:
        fitted = fitted_answer(release, one)
        for place, bus in enumerate(one.buses):
            series = [("unfitted", one.unfitted), (released_words(release), fitted)]
            if one.measured is not None:
                series.insert(0, ("measured", one.measured))
            title = f"Record {one.record} at {bus}: {one.event}"
            shown = [(name, mhz * values[:, place]) for name, values in series]
            drawn.append(chart(title, one.time_s, shown, x_label="time [s]", y_label=DEVIATION))
            if len(drawn) == MOST_REPLAYS:
                return drawn
    return drawn


def routes(pages: Pages) -> list[Route]:
    """The recipient's pages."""
    studio = pages.studio

    def drop(request: Request) -> Response:
        del request
        return pages.render("recipient.html", at="recipient", received=studio.received.values())

    @form
    def dropped(
        self: Pages, request: Request, given: FormData, uploads: dict[str, Any]
    ) -> Response:
        del self, request, given
        found = uploads.get("bundle", [])
        if not found:
            raise OptionError(
                "There is no file.", expected="a bundle, a .zip", outcome="Nothing was checked."
            )
        ((name, path),) = studio.keep(found[:1]).items()
        try:
            one = received(studio, name, path)
        except GridveilError as error:
            path.unlink()
            words = str(error).replace(str(path), name)
            return pages.render(
                "recipient.html",
                at="recipient",
                received=studio.received.values(),
                broken=words,
                status=422,
            )
        return RedirectResponse(f"/recipient/{one.id}", 303)

    async def take(request: Request) -> Response:
        return await dropped(pages, request)

    def known(request: Request) -> Received:
        one = studio.received.get(request.path_params["id"])
        if one is None:
            raise HTTPException(404)
        return one

    def look(request: Request) -> Response:
        one = known(request)
        found = opened(one.path)
        event = request.query_params.get("event", "").strip() or found.event
        done, drawn, error = None, None, None
        try:
            done, drawn = answered(one.path, event)
        except GridveilError as wrong:
            error = wrong
        return pages.render(
            "received.html",
            at="recipient",
            one=one,
            found=found,
            event=event,
            done=done,
            chart_=drawn,
            error=error,
            replays=replayed(found.release),
            replay_charts=replay_charts(found.release),
            released=released_words(found.release).capitalize(),
            status=422 if error else 200,
        )

    def file(request: Request) -> Response:
        return part(known(request).path, request.path_params["name"])

    return [
        Route("/recipient", drop),
        Route("/recipient", take, methods=["POST"]),
        Route("/recipient/{id}", look),
        Route("/recipient/{id}/files/{name}", file),
    ]
