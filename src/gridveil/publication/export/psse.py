"""PSS/E: RAW of revision 33 with its DYR. Nothing of PSS/E is needed to write them."""

from __future__ import annotations

from collections.abc import Iterable

from gridveil.dynamics.events import Event
from gridveil.dynamics.models import ReducedModel
from gridveil.grid.parameters import DAMPING, INERTIA
from gridveil.publication.export.common import (
    BASE_KV,
    Format,
    about,
    governed,
    lines,
    rated_hz,
    reference_machines,
    source_reactance,
)
from gridveil.publication.export.raw import OWNERS, raw_text
from gridveil.publication.export.tables import PORTS, ports_table
from gridveil.publication.release import Release

RAW, DYR = "psse.raw", "psse.dyr"
# Of the network's own reactance, in ZSORCE: less would use up the single precision of some
# programs.
ZSORCE_SHARE = 1e-3


def write(release: Release, event: Event | None) -> dict[str, bytes]:
    """Write the network, the machines' dynamics, and each loaded bus's shares of machines."""
    del event
    return {
        RAW: _raw(release).encode("ascii"),
        DYR: _dyr(release).encode("ascii"),
        PORTS: ports_table(release),
    }


def _raw(release: Release) -> str:
    model, base = release.swing, release.swing.base_mva
    reference = reference_machines(model)
    numbers, zsorce = range(1, len(model.machines) + 1), source_reactance(model, ZSORCE_SHARE)
    records: dict[str, Iterable[str]] = {
        # I, NAME, BASKV, IDE, AREA, ZONE, OWNER, VM, VA, NVHI, NVLO, EVHI, EVLO
        "BUS": (
            _record(
                n,
                _quoted(model.machines[n - 1], 12),
                BASE_KV,
                3 if n in reference else 2,
                1,
                1,
                1,
                1.0,
                0.0,
            )
            + ", 1.1, 0.9, 1.1, 0.9"
            for n in numbers
        ),
        # I, ID, STATUS, AREA, ZONE, PL, QL, IP, IQ, YP, YQ, OWNER, SCALE, INTRPT
        "LOAD": (_record(n, "'1 '", 1, 1, 1, *([0.0] * 6), 1, 1, 0) for n in numbers),
        # I, ID, PG, QG, QT, QB, VS, IREG, MBASE, ZR, ZX, RT, XT, GTAP, STAT, RMPCT, PT, PB, O1, F1,
        # ..., WMOD, WPF
        "GENERATOR": (
            _record(
                n,
                "'1 '",
                0.0,
                0.0,
                9999.0,
                -9999.0,
                1.0,
                0,
                base,
                0.0,
                zsorce,
                0.0,
                0.0,
                1.0,
                1,
                100.0,
            )
            + f", {_record(9999.0, -9999.0, *OWNERS, 0, 1.0)}"
            for n in numbers
        ),
        # I, J, CKT, R, X, B, RATEA, RATEB, RATEC, GI, BI, GJ, BJ, ST, MET, LEN, O1, F1, ...
        "BRANCH": (
            _record(line.start, line.end, "'1 '", 0.0, line.x, *([0.0] * 8), 1, 1, 0.0, *OWNERS)
            for line in lines(model)
        ),
        "AREA": ("1, 0, 0.0, 10.0, 'RELEASE     '",),
        "ZONE": ("1, 'RELEASE     '",),
        "OWNER": ("1, 'RELEASE     '",),
    }
    # IC, SBASE, REV, XFRRAT, NXFRAT, BASFRQ, and two lines of at most 60 characters
    text = [
        f"0, {base!r}, 33, 0, 0, {rated_hz(model)!r} / SBASE [MVA] and BASFRQ = omega_b over 2 pi "
        "[Hz]"
    ]
    text += [_title(release), f"omega_b = {model.omega_b!r} rad/s; p.u. of {base!r} MVA"]
    return raw_text(text, records)


def _title(release: Release) -> str:
    return f"{'DEMO, protects nothing: ' if release.demo else ''}gridveil release, Kron-reduced"


def _dyr(release: Release) -> str:
    """H = M / 2 [s] and D [p.u.] on MBASE; R = 1/G [p.u.], T1 = 1/T [s]."""
    model = release.swing
    text = [f"// {line}" for line in (*about(release), *_legend(model))]
    of_machines = (model.values[own.name].tolist() for own in (INERTIA, DAMPING))
    for n, (m, d) in enumerate(zip(*of_machines, strict=True), start=1):
        text.append(f"{n} 'GENCLS' 1 {m / 2!r} {d!r} /")
    for n in governed(model):
        droop, lag = 1.0 / float(model.droop_gain[n - 1]), 1.0 / float(model.governor_rate[n - 1])
        text.append(f"{n} 'TGOV1' 1 {droop!r} {lag!r} 99.0 -99.0 1.0 1.0 0.0 /")
    return "\n".join([*text, ""])


def _legend(model: ReducedModel) -> tuple[str, ...]:
    return (
        f"GENCLS: H [s] and D [p.u. power, p.u. frequency] on MBASE = {model.base_mva!r} MVA.",
        "TGOV1: R [p.u. frequency, p.u. power], T1 [s], VMAX, VMIN [p.u.], T2, T3 [s], DT.",
    )


def _record(*fields: object) -> str:
    return ", ".join(field if isinstance(field, str) else repr(field) for field in fields)


def _quoted(name: str, width: int) -> str:
    return f"'{name:<{width}}'"


def write_detailed(release: Release, event: Event | None) -> dict[str, bytes]:
    """Write the case that a detailed release shows; it carries no event."""
    from gridveil.publication.export.detailed_psse import detailed_raw_dyr

    del event
    assert release.shown is not None, "a detailed release shows a case"
    return detailed_raw_dyr(release.shown.case)


FORMAT = Format(
    "psse",
    1,
    write,
    runs=(
        f"python -c \"import andes; s = andes.load('{RAW}', addfile='{DYR}'); "
        's.GENCLS.fn.v[:] = s.config.freq; s.PFlow.run(); s.TDS.run()"'
    ),
    largest=500,
    because="it lists every pair of machines as a branch",
    write_detailed=write_detailed,
    runs_detailed=(
        "python -c \"import andes; s = andes.load('network.raw', addfile='network.dyr'); "
        's.PFlow.run(); s.TDS.run()"'
    ),
)
