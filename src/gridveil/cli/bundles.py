"""Commands that read a bundle: verify, simulate, export.

They work without the source, and without its vault.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from gridveil.cli import options
from gridveil.cli.output import (
    print_json,
    print_line,
    print_table,
    print_text,
    verdict_in_words,
)
from gridveil.cli.replay import print_replay
from gridveil.cli.terms import explained
from gridveil.foundation.errors import OptionError

if TYPE_CHECKING:
    from gridveil.publication.bundle import Report


def verify(
    bundle: options.Bundle,
    key: Annotated[
        Path | None,
        options.option("the publisher's public key (PEM) or keyring: it must have signed"),
    ] = None,
    beside: Annotated[
        Path | None,
        options.option(
            "another bundle of the same owner: do both belong to one history of the ledger?"
        ),
    ] = None,
    notices: Annotated[
        Path | None,
        options.option(
            "a notice of withdrawal, or a folder of *.withdrawn.json; those beside the bundle are "
            "read in any case"
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Check every bit of a bundle, its schema, certificate and signature.

    Exit code 1 if anything is wrong, 3 if it is intact and its publisher withdrew it.
    """
    from gridveil.publication.bundle import verify as check

    report = check(bundle, key, beside, notices)
    if json:
        print_json({"ok": True, **asdict(report), "signed_by": _key(report)})
        return
    kind = "DEMO (made with a seed; protects nothing)" if report.demo else "real release"
    print_text(
        f"{report.path}: intact. {kind}, ε = {report.epsilon}, adjacency {report.adjacency}, "
        f"{report.machines} machines, {len(report.files)} files.",
        *(f"Noise of {name}: {words}." for name, words in report.noise.items()),
        *(verdict_in_words(report.verdict, "Fit: ") if report.verdict else ()),
        f"SHA-256 of its checksums: {report.digest}",
        *_repacked(report),
        *_exports(report),
        _signature(report),
        *(f"Notice   {words}" for words in report.ignored_notices),
        *([_history(beside, trusted=report.trusted)] if beside else []),
        explained("ε", "adjacency", "α", "scale"),
    )


def _history(beside: Path, *, trusted: bool) -> str:
    whose = "" if trusted else " Whether both are the publisher's own, use --key to check."
    return f"Of one history of the ledger with {beside}, as far as their certificates tell.{whose}"


def _repacked(report: Report) -> list[str]:
    if not report.repacked:
        own = f"Ignored: {report.ignored} file(s) of the system's own, no part of the bundle."
        return [own] if report.ignored else []
    extras = (
        f" It put {report.ignored} file(s) of its own in, which are no part of the bundle."
        if report.ignored
        else ""
    )
    return [
        "Repacked: another program made this zip; the files in it are the bundle's, bit by "
        f"bit.{extras}"
    ]


def _exports(report: Report) -> list[str]:
    made = [name for name in report.exports if name not in report.not_recomputed]
    told = [f"Also for {', '.join(made)}: as this model gives them."] if made else []
    others = [name for name in report.not_recomputed if name in report.exports]
    by_another = "by another version of gridveil, so that only the checksums vouch for it."
    if others:
        told.append(f"Also for {', '.join(others)}: {by_another}")
    if len(others) < len(report.not_recomputed):
        told.append(f"Its card is {by_another}")
    return told


def _key(report: Report) -> str | None:
    """The name of the key that signed, as `keys show` has it."""
    from gridveil.publication.signing.public import key_name

    return key_name(bytes.fromhex(report.signed_by)) if report.signed_by else None


def _signature(report: Report) -> str:
    key = _key(report)
    if key is None:
        return "Not signed."
    return (
        f"Signed by key {key}, which you trust."
        if report.trusted
        else f"Signed by key {key}; use --key to check whose it is."
    )


def simulate(
    bundle: options.Bundle,
    event: Annotated[
        list[str] | None,
        options.option(
            "load:G1=+0.1, load:L2=+15MW@10s, gen:G2=-0.5, uniform:+5%, lost:L3, "
            "trip:G3; several are combined"
        ),
    ] = None,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay",
            help="the events of the records that the release was fitted to: measured, unfitted, "
            "fitted",
        ),
    ] = False,
    horizon: Annotated[float, typer.Option(help="how long [s]")] = 30.0,
    dt: Annotated[float, typer.Option(help="time step [s]")] = 0.01,
    scheme: Annotated[
        str | None,
        options.option("exact (default), trapezoidal (default above 400 machines) or euler"),
    ] = None,
    buses: Annotated[
        str | None, options.option("buses to show, such as G1,L3; default: all machines")
    ] = None,
    plot: Annotated[
        Path | None, options.option("write a figure there (.png, .pdf or .svg)")
    ] = None,
    csv: Annotated[Path | None, options.option("write the trajectory there [s, p.u.]")] = None,
    json: options.Json = False,
) -> None:
    """Simulate an event on a release: nadir, rate of change, settling value of the system and each
    bus, and the modes.
    """
    from gridveil.dynamics.ensemble import LEVEL
    from gridveil.dynamics.trajectory import in_hz
    from gridveil.workflow.bundles import simulate_bundle

    if replay or not event:
        if replay and not event:
            print_replay(bundle, plot, csv, json)
            return
        raise OptionError(
            "--replay has its own events." if replay else "There is no event to simulate.",
            expected="either --event or --replay",
            outcome="Nothing was simulated.",
            remedy='Give one of them, such as --event "load:G1=+0.1".',
        )
    done = simulate_bundle(
        bundle,
        ";".join(event),
        horizon_s=horizon,
        dt_s=dt,
        scheme=scheme,
        buses=[bus.strip() for bus in buses.split(",")] if buses else None,
        plot=plot,
        csv=csv,
    )
    figures, release, responses, modes = done.system, done.release, done.responses, done.modes
    system = {
        "nadir_hz": float(figures.nadir_hz),
        "nadir_s": float(figures.nadir_s),
        "rocof_hz_s": float(figures.rocof_hz_s),
        "initial_rocof_hz_s": float(figures.initial_rocof_hz_s),
        "settling_hz": float(figures.settling_hz),
    }
    hz, band = done.trajectory.frequency_hz, done.system_band
    compact = getattr(release.model, "compact", None)
    bands = band and {
        "level": LEVEL,
        "nadir_hz": in_hz(band.nadir, hz),
        "rocof_hz_s": in_hz(band.rocof, hz),
        "settling_hz": in_hz(band.settling, hz),
        "counts": release.ensemble.counts if release.ensemble else (),
    }
    if json:
        print_json(
            {
                "demo": release.demo,
                "event": event,
                "frequency_hz": done.trajectory.frequency_hz,
                "system": system,
                "system_bands": bands,
                "first_swing": asdict(done.first_swing) if done.first_swing else None,
                "validity": asdict(done.validity) | {"beyond": done.validity.beyond},
                "compact": asdict(compact) if compact else None,
                "responses": [asdict(response) for response in responses],
                "modes": [asdict(mode) for mode in modes],
                "plot": str(plot) if plot else None,
                "csv": str(csv) if csv else None,
            }
        )
        return
    print_text(
        "System   inertia-weighted frequency: nadir {nadir_mhz:+.1f} mHz at {nadir_s:.2f} s, RoCoF "
        "{rocof_hz_s:+.4f} Hz/s over 0.5 s ({initial_rocof_hz_s:+.4f} Hz/s at the step itself), "
        "settles at {settling_mhz:+.1f} mHz".format(
            **system, nadir_mhz=1e3 * system["nadir_hz"], settling_mhz=1e3 * system["settling_hz"]
        ),
        *(
            [
                f"There    at {done.first_swing.bus}, where the event is, frequency changes by "
                f"{done.first_swing.rocof_hz_s:+.4f} Hz/s over 0.1 s in the first swing"
            ]
            if done.first_swing
            else []
        ),
        f"Valid    {done.validity.in_words()}",
        *([f"Compact  {compact.in_words()}"] if compact else []),
        explained("nadir", "RoCoF"),
    )
    if bands:
        nadirs, slopes, settled = (
            bands[name] for name in ("nadir_hz", "rocof_hz_s", "settling_hz")
        )
        print_text(
            f"         80 % bands: nadir {1e3 * nadirs[0]:+.1f} to {1e3 * nadirs[1]:+.1f} mHz, "
            f"RoCoF {slopes[0]:+.4f} to {slopes[1]:+.4f} Hz/s, settles at {1e3 * settled[0]:+.1f} "
            f"to {1e3 * settled[1]:+.1f} mHz; counted: {', '.join(bands['counts'])}"
        )
    rows = (
        responses
        if len(responses) <= 60
        else sorted(responses, key=lambda r: -abs(r.nadir_hz))[:20]
    )
    print_table(
        f"{'DEMO: ' if release.demo else ''}response to {'; '.join(event)}",
        ("bus", "nadir [Hz]", "at [s]", "RoCoF over 0.5 s [Hz/s]", "settles at [Hz]"),
        [
            (
                r.bus,
                _with_band(r.nadir_hz, r.nadir_band_hz),
                f"{r.nadir_s:.2f}",
                _with_band(r.rocof_hz_s, r.rocof_band_hz_s),
                _with_band(r.settling_hz, r.settling_band_hz),
            )
            for r in rows
        ],
    )
    if len(rows) < len(responses):
        print_text(
            f"The {len(rows)} that go furthest, of {len(responses)}; --json and --csv have all, "
            "--buses others."
        )
    if modes:
        print_table(
            "modes: how machines swing against each other",
            ("mode", "frequency [Hz]", "damping ratio [%]"),
            [
                (str(n), f"{mode.frequency_hz:.4f}", f"{100 * mode.damping_ratio:.2f}")
                for n, mode in enumerate(modes, start=1)
            ],
        )
    written = [f"Figure   {plot}"] * bool(plot) + [f"Samples  {csv}  [s, p.u.]"] * bool(csv)
    print_text(
        *(written or ["Add --plot response.png for a figure, --csv response.csv for the samples."])
    )


def _with_band(value: float, band: tuple[float, float] | None) -> list[str]:
    """A figure, and below it the ends of its band."""
    return [f"{value:+.4f}", *([f"{band[0]:+.4f} to {band[1]:+.4f}"] if band else [])]


def export(
    bundle: options.Bundle,
    to: Annotated[
        str,
        options.option(
            "andes, psse, matpower, mat, csv, statespace, modelica, fmu or matrices (CSV of A, B, "
            "C, D)"
        ),
    ],
    event: Annotated[
        list[str] | None,
        options.option(
            "what to write along (andes): load:G1=+0.1, uniform:+5%@10s; default: the "
            "bundle's reference event"
        ),
    ] = None,
    out: Annotated[
        Path | None, options.option("folder, or .zip, to write; default BUNDLE-FORMAT")
    ] = None,
    compiled: Annotated[
        bool,
        typer.Option("--compile", help="build the FMU's binary with the C compiler here (fmu)"),
    ] = False,
    json: options.Json = False,
) -> None:
    """Write a release for another tool: ANDES, PSS/E, MATPOWER, MATLAB, Modelica, FMI, CSV or state
    space; print the line that runs it.
    """
    from gridveil.workflow.bundles import export_bundle

    made = export_bundle(bundle, to, ";".join(event) if event else None, out, compiled=compiled)
    if json:
        print_json(
            {
                "demo": made.demo,
                "to": to,
                "out": str(made.place),
                "files": list(made.files),
                "run": made.runs,
            }
        )
        return
    print_text(
        *["DEMO: made with a seed; it protects nothing."] * made.demo,
        f"Written  {made.place}: {', '.join(made.files)}",
    )
    print_line("Run", f"{_go_to(made.place)} && {made.runs}")


def _go_to(place: Path) -> str:
    quoted, folder = quote(str(place)), quote(str(place.with_suffix("")))
    return (
        f"python -m zipfile -e {quoted} {folder} && cd {folder}"
        if place.suffix == ".zip"
        else f"cd {quoted}"
    )
