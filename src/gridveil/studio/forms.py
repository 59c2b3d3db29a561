"""Posted forms: read whole before a handler sees them, or refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from gridveil.foundation.errors import OptionError

Handler = Callable[..., Any]


def form(handler: Handler) -> Handler:
    """Hand a posted form to a handler, which runs beside the others."""

    @wraps(handler)
    async def reading(self: Any, request: Request) -> Response:
        if request.scope["gridveil.large"]:
            await request.body()  # reads on, keeps nothing, and raises TooLarge
        try:
            async with request.form(max_files=50, max_fields=100) as given:
                read = {name: given.getlist(name) for name in given}
                uploads = {
                    name: [
                        (one.filename or "file", await one.read())
                        for one in listed
                        if isinstance(one, UploadFile) and one.filename
                    ]
                    for name, listed in read.items()
                }
        except HTTPException as error:
            raise OptionError(
                f"The form cannot be read: {error.detail}", outcome="Nothing was done."
            ) from None
        return await run_in_threadpool(handler, self, request, given, uploads)

    return reading
