"""Who may speak to the studio, and what it takes."""

import socket
from urllib.parse import urlsplit

import pytest

from gridveil.studio.serve import serve
from studio_helpers import serving

PAGES = (
    "/",
    "/grid",
    "/hide",
    "/release",
    "/ledger",
    "/recipient",
    "/static/studio.js",
    "/nowhere",
)


def test_no_page_works_without_the_cookie(running):
    for path in PAGES:
        answer = running.ask("GET", path, cookie=False)
        assert answer.status == 403
        assert "Nothing was done" in answer.text
    assert running.ask("POST", "/grid", {"name": "ieee30"}, cookie=False).status == 403
    assert running.studio.draft.facts is None


def test_the_link_works_once_and_gives_a_strict_cookie(running):
    path = f"/enter?token={running.keys.token}"
    first = running.ask("GET", path, cookie=False)
    assert first.status == 303
    cookie = first.getheader("Set-Cookie").lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert running.ask("GET", path, cookie=False).status == 403
    assert running.links == [running.keys.link]  # a new one is told, for another browser
    assert running.ask("GET", f"/enter?token={running.keys.token}", cookie=False).status == 303


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:80", "127.0.0.1", None])
def test_dns_rebinding_is_refused(running, host):
    answer = running.ask("GET", "/grid", headers={"Host": host})
    assert answer.status in (400, 421)
    assert "ieee30" not in answer.text


@pytest.mark.parametrize("origin", ["http://evil.example", "null", None])
def test_another_origin_cannot_post(running, origin):
    answer = running.ask("POST", "/grid", {"name": "ieee30"}, headers={"Origin": origin})
    assert answer.status == 403
    assert running.studio.draft.facts is None


def test_every_answer_has_the_policy_and_is_not_kept(running):
    for path in PAGES:
        answer = running.ask("GET", path)
        policy = answer.getheader("Content-Security-Policy")
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.getheader("Cache-Control") == "no-store"
        assert answer.getheader("X-Content-Type-Options") == "nosniff"
        assert answer.getheader("Server") is None


def test_an_upload_over_the_limit_is_refused_and_not_kept(studio_of):
    with serving(studio_of(), limit=10_000) as running:
        large = [("file", "grid.m", b"x" * 20_000)]
        answer = running.ask("POST", "/grid", files=large)
        assert answer.status == 422
        assert "This upload is larger than" in answer.text
        assert "It was not kept" in answer.text
        assert running.studio.draft.facts is None
        assert not [path for path in running.studio.uploads.rglob("*") if path.is_file()]
        unknown = running.ask("POST", "/grid", files=large, headers={"Content-Length": "junk"})
        assert unknown.status in (400, 422)


def test_uploads_are_deleted_on_exit(running):
    running.ask("POST", "/grid", files=[("file", "grid.m", b"no grid")])
    uploads = running.studio.uploads
    assert list(uploads.rglob("*.m"))
    running.studio.close()
    assert not uploads.exists()


def test_the_link_can_be_followed_as_soon_as_it_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    said = []

    def say(text):
        said.append(text)
        if len(said) == 1:
            link = urlsplit(text.split()[-1])
            socket.create_connection((link.hostname, link.port), timeout=5).close()
            raise KeyboardInterrupt

    serve(tmp_path / "out", browse=False, say=say)
    assert said[-1] == "The studio is closed."
