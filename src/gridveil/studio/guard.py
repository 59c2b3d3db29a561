"""Who may speak to the studio: the browser that was given the link, and no page of others.

Every request passes here first: its host (another name for this address is DNS rebinding), its
cookie, which the one-time link was exchanged for, on a post its origin, and its size.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse

from gridveil.foundation.page import standalone, text

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

UPLOAD_BYTES = 2**27  # of one post; the largest public grid takes 23 MB
POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
# Of a page that stands alone, such as a card: its own policy names its style and script; here it is
# kept from everything of the studio's.
ALONE = "sandbox allow-scripts allow-popups; connect-src 'none'; frame-ancestors 'self'"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def _told(words: str, status: int) -> HTMLResponse:
    """A page that says why there is no other, and asks nothing of the studio."""
    body = f"<main><h1>gridveil studio</h1><p>{text(words)}</p></main>"
    headers = {"Content-Security-Policy": "sandbox; frame-ancestors 'none'"}
    return HTMLResponse(standalone("gridveil studio", body), status, headers)


class TooLarge(Exception):
    """A post that is larger than an upload may be; it was read to its end and not kept."""


@dataclass
class Keys:
    """What opens the studio: a link that works once, and the cookie that it is exchanged for.

    host : the only name that this address is called by, with its port.
    tell : takes a new link each time one was used.
    """

    host: str
    tell: Callable[[str], object]
    cookie: str = field(default_factory=secrets.token_urlsafe, repr=False)
    token: str = field(default_factory=secrets.token_urlsafe, repr=False)

    @property
    def name(self) -> str:
        """Of the cookie: one for each port, since browsers share cookies between ports."""
        return f"gridveil-studio-{self.host.rpartition(':')[2]}"

    @property
    def link(self) -> str:
        """The address that opens the studio once."""
        return f"http://{self.host}/enter?token={self.token}"

    def uses(self, token: str) -> bool:
        """Whether this is the link's token; it is then used up, and there is a new link."""
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            return False
        self.token = secrets.token_urlsafe()
        self.tell(self.link)
        return True

    def knows(self, cookies: dict[str, str]) -> bool:
        """Whether a browser holds the cookie."""
        return secrets.compare_digest(cookies.get(self.name, "").encode(), self.cookie.encode())


class Guard:
    """Refuses whoever may not speak to the studio, and puts headers on every answer."""

    def __init__(self, app: Any, keys: Keys, limit: int = UPLOAD_BYTES) -> None:
        self._app, self._keys, self._limit = app, keys, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        cookies = cookie_parser(headers.get("cookie", ""))

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    own.setdefault(name, value)
            await send(message)

        answer = self._refused(scope, headers, cookies)
        if answer is not None:
            await answer(scope, receive, guarded)
            return
        size = headers.get("content-length", "0")
        scope["gridveil.large"] = not size.isdecimal() or int(size) > self._limit
        await self._app(scope, self._counted(scope, receive), guarded)

    def _refused(self, scope: Scope, headers: Headers, cookies: dict[str, str]) -> Any:
        """The answer to whoever may not go on; None: go on."""
        keys, host = self._keys, headers.get("host", "")
        if host != keys.host:
            return _told(f"The studio answers at {keys.host} alone. Nothing was done.", 421)
        if scope["method"] not in ("GET", "HEAD") and headers.get("origin") != f"http://{host}":
            return _told("This came from a page that is not the studio's. Nothing was done.", 403)
        known = keys.knows(cookies)
        if scope["path"] == "/enter":
            token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
            if known or keys.uses(token):
                entered = RedirectResponse("/", 303)
                entered.set_cookie(keys.name, keys.cookie, httponly=True, samesite="strict")
                return entered
        if known:
            return None
        return _told(
            "This link was used already, or is none of this studio's. Nothing was done. Open the "
            "newest link that gridveil studio printed in its terminal.",
            403,
        )

    def _counted(self, scope: Scope, receive: Receive) -> Receive:
        """Count what comes in; of too much, read the rest without keeping it, so that the browser
        waits for the answer.
        """
        seen = 0

        async def counting() -> MutableMapping[str, Any]:
            nonlocal seen
            message = await receive()
            while message["type"] == "http.request":
                seen += len(message.get("body", b""))
                if seen <= self._limit and not scope["gridveil.large"]:
                    return message
                if not message.get("more_body"):
                    raise TooLarge
                message = await receive()
            return message

        return counting
