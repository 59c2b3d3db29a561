"""Pages of a release that was begun: how far it is, what became of it, and its files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse

from gridveil.foundation.errors import OptionError
from gridveil.publication.export import FORMATS
from gridveil.studio import recipient
from gridveil.studio.draft import NOTHING
from gridveil.studio.forms import form
from gridveil.studio.guard import ALONE
from gridveil.studio.jobs import Job
from gridveil.studio.state import Studio
from gridveil.studio.worker import CONFIG

POLL_S = 0.2
SIGNOFF = "-signoff"  # at the end of the id of a sign-off page's job


class Releases:
    """Step 4, and what leads to it."""

    studio: Studio

    def render(self, name: str, *, status: int = 200, **values: Any) -> Response:
        """Fill a template in."""
        raise NotImplementedError

    def _job(self, request: Request) -> Job:
        job = self.studio.jobs.get(request.path_params["id"])
        if job is None:
            raise HTTPException(404)
        return job

    def look(self, request: Request) -> Response:
        """How far a release is, or what became of it."""
        job = self._job(request)
        ended = job.ended()
        notices = [line["notice"] for line in job.progress()[0] if "notice" in line]
        found = None
        if "signoff" not in job.about and ended and ended["state"] == "done":
            found = recipient.opened(job.bundle)
        return self.render(
            "signoff.html" if "signoff" in job.about else "look.html",
            at="look",
            job=job,
            ended=ended,
            notices=notices,
            found=found,
            formats=FORMATS,
        )

    async def events(self, request: Request) -> Response:
        """Tell how far a release is, as it goes on."""
        job = self._job(request)

        async def told() -> AsyncIterator[str]:
            seen = 0
            while not self.studio.closing:
                lines, seen = await run_in_threadpool(job.progress, seen)
                for line in [line for line in lines if "stage" in line][-1:]:
                    yield f"event: progress\ndata: {json.dumps(line)}\n\n"
                if await run_in_threadpool(job.ended) is not None:
                    yield "event: end\ndata: {}\n\n"
                    return
                yield ": still here\n\n"
                await asyncio.sleep(POLL_S)

        return StreamingResponse(told(), media_type="text/event-stream")

    @form
    def cancel(self, request: Request, given: FormData, uploads: dict[str, Any]) -> Response:
        """Ask a release to end."""
        del given, uploads
        job = self._job(request)
        job.cancel()
        job.wait()
        return RedirectResponse(f"/releases/{job.id}", 303)

    def file(self, request: Request) -> Response:
        """One file of a release that was made."""
        job, name = self._job(request), request.path_params["name"]
        texts = {"release.toml": job.about["toml"], "release.py": job.about["script"]}
        if name == "signoff.html" and "signoff" in job.about:
            place = Path(job.about["signoff"])
            if not place.exists():
                raise HTTPException(404)
            headers = {"Content-Security-Policy": ALONE}
            page = place.read_bytes()
            return Response(page, media_type="text/html; charset=utf-8", headers=headers)
        if name in texts:
            attached = {"Content-Disposition": f'attachment; filename="{name}"'}
            return PlainTextResponse(texts[name], headers=attached)
        if not job.bundle.exists():
            raise HTTPException(404)
        return recipient.part(job.bundle, name)

    @form
    def sign_off(self, request: Request, given: FormData, uploads: dict[str, Any]) -> Response:
        """Write the confidential page on a release, in a process of its own."""
        del given, uploads
        job, studio = self._job(request), self.studio
        about = {
            **job.about,
            "name": f"Sign-off of {job.about['name']}",
            "signoff": str(studio.uploads / f"signoff-{job.id}.html"),
        }
        with studio.lock:
            name = f"{job.id}{SIGNOFF}"
            if (other := studio.jobs.running()) is not None and other.id != name:
                raise OptionError(
                    f"{other.about['name']} is being made.", outcome=NOTHING, remedy="Wait for it."
                )
            config = (job.folder / CONFIG).read_text(encoding="utf-8")
            written = studio.jobs.get(name)
            if written and written.ended() and not Path(written.about["signoff"]).exists():
                studio.jobs.forget(written)  # of a studio that was closed, or one that failed
            studio.jobs.begin(name, config, about)
        return RedirectResponse(f"/releases/{name}", 303)

    @form
    def use(self, request: Request, given: FormData, uploads: dict[str, Any]) -> Response:
        """Open a release's own bundle as a recipient would."""
        del given, uploads
        job = self._job(request)
        one = recipient.received(self.studio, job.bundle.name, job.bundle)
        return RedirectResponse(f"/recipient/{one.id}", 303)
