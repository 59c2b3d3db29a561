"""Fixtures of the studio's tests."""

from studio_helpers import running, studio_of  # noqa: F401
