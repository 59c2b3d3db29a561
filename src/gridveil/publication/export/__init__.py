"""Writers, one file a format: a release for the tools that engineers use.

None of these tools is imported here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gridveil.dynamics.events import Event
from gridveil.dynamics.models import ReducedModel
from gridveil.foundation.errors import BundleError, OptionError
from gridveil.publication.export import (
    andes,
    fmu,
    matlab,
    matpower,
    matrices,
    modelica,
    psse,
    statespace,
    tables,
)
from gridveil.publication.export.common import NOT_WRITTEN, Format
from gridveil.publication.release import Release, reference_event

FORMATS: dict[str, Format] = {
    format_.name: format_
    for format_ in (
        andes.FORMAT,
        psse.FORMAT,
        matpower.FORMAT,
        matlab.FORMAT,
        tables.FORMAT,
        statespace.FORMAT,
        modelica.FORMAT,
        fmu.FORMAT,
        matrices.FORMAT,
    )
}

# What every tool takes as a name, and none as anything else; a forged bundle may call its buses
# what it likes.
PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,11}")


def export(release: Release, to: str, event: Event | str | None = None) -> dict[str, bytes]:
    """Write a release in another tool's format: contents by file name, from the arguments alone.

    to : one of `FORMATS`.
    event : written along where the format carries one, by default the bundle's reference event.
    """
    chosen = format_named(to)
    chosen.check_size(len(release.model.machines), len(release.model.ports))
    chosen.check_model(release)
    if not all(PLAIN_NAME.fullmatch(port) for port in release.model.ports):
        raise BundleError(
            "A bus of the model has a name that gridveil never gives: letters and digits only.",
            outcome=NOT_WRITTEN,
            remedy="Do not use the bundle; ask its publisher for it again.",
        )
    if event is not None and not chosen.carries_event:
        carrying = ", ".join(name for name, format_ in FORMATS.items() if format_.carries_event)
        raise OptionError(
            f"The format {to} carries no event: it has the model, and the shares by which loads "
            "fall on machines.",
            outcome=NOT_WRITTEN,
            remedy=f"Leave the event out, or use {carrying}.",
        )
    if chosen.carries_event and not isinstance(event, Event):
        event = Event.parse(
            event or reference_event(release.model), base_mva=release.model.base_mva
        )
    write = chosen.write if isinstance(release.model, ReducedModel) else chosen.write_detailed
    assert write is not None, "check_model refuses what has no words for the model"
    return dict(write(release, event if isinstance(event, Event) else None))


def format_named(name: str) -> Format:
    """Look a format up."""
    if name not in FORMATS:
        raise OptionError(
            f"The format {name!r} is unknown.",
            outcome=NOT_WRITTEN,
            remedy=f"Choose one of {', '.join(FORMATS)}.",
        )
    return FORMATS[name]


def check_formats(
    names: Iterable[str], machines: int, ports: int = 0, *, detailed: bool = False
) -> None:
    """Refuse unknown formats, those too small for the machines or ports, and those that have no
    words for a detailed model, before anything is drawn.
    """
    for name in names:
        chosen = format_named(name)
        chosen.check_size(machines, ports)
        if detailed:
            chosen.check_detailed()
