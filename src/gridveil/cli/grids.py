"""Commands that read a grid and charge nothing: demo, inspect."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridveil.cli import options
from gridveil.cli.output import (
    guarantee_json,
    print_guarantee,
    print_json,
    print_table,
    print_text,
    progress_bar,
)
from gridveil.cli.reading import GridReading, reads_grid
from gridveil.cli.trajectories import print_trajectory, trajectory_json

if TYPE_CHECKING:
    from gridveil.grid.facts import GridFacts


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
    from gridveil.dynamics.drawing import plot_comparison
    from gridveil.foundation.archive import check_free
    from gridveil.privacy.epsilon import exact
    from gridveil.workflow.demo import run_demo, worst_error_mhz
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
    plot_comparison(result.source, result.noisy, result.fitted, str(figure))
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
        f"Next     gridveil verify {out / 'bundle'}",
        f'         gridveil simulate {out / "bundle"} --event "load:G1=+0.1" --plot response.png',
    )


@reads_grid
def inspect(
    grid: options.Grid,
    *,
    reading: GridReading,
    trajectory: options.Trajectories = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="draw the trajectories there (.png, .pdf or .svg), the event marked",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Read and check a grid; show its public facts and the names its buses would get. Prints no
    private value.

    With a measured trajectory, show what was read of it too.
    """
    from gridveil.workflow.opening import inspect_grid

    with progress_bar(quiet=json):
        facts, measured = inspect_grid(reading.of(grid, trajectory=trajectory), plot)
    if json:
        found = _facts_json(facts)
        if measured:
            found |= {
                "trajectories": [trajectory_json(one) for one in measured],
                "plot": str(plot) if plot else None,
            }
        print_json(found)
        return
    shown = _facts_json(facts)
    names = shown.pop("public_names")
    shown["policy"] = [f"{key} = {value or 'refuse'}" for key, value in shown["policy"].items()]
    print_table(
        f"{facts.name}: public facts",
        ("fact", "value"),
        [
            (key.replace("_", " "), value if isinstance(value, list) else f"{value}")
            for key, value in shown.items()
        ],
        texts=2,
    )
    print_table(
        "private: what a release protects",
        ("group", "asset", "unit", "default bounds", "items"),
        [
            (name, asset, unit, _default_bounds(name), str(size))
            for name, size, unit, asset in _private_groups(facts)
        ],
        texts=4,
    )
    shown_names = ", ".join(f"{bus}: {name}" for bus, name in list(names.items())[:60])
    rest = f", … ({len(names)} in all; --json lists them)" if len(names) > 60 else ""
    print_text(f"Names in a bundle (bus: name), yours to keep: {shown_names}{rest}")
    for one in measured:
        print_trajectory(one)
    if plot:
        print_text(f"Figure   {plot}")


def _facts_json(facts: GridFacts) -> dict[str, Any]:
    from gridveil.publication.release import neutral_names

    return {
        "name": facts.name,
        "buses": len(facts.buses),
        "lines": len(facts.edges),
        "machines": len(facts.machines),
        "loaded_buses": int((facts.loads != 0).sum()),
        "zero_injection_buses": int((facts.loads[facts.interior] == 0).sum()),
        "total_load_mw": round(float(facts.loads.sum() * facts.base_mva), 6),
        "base_mva": facts.base_mva,
        "frequency_hz": facts.frequency_hz,
        "omega_b_rad_s": facts.omega_b,
        "operating_point": facts.operating_point,
        "loads_published": facts.loads_are_public,
        "policy": dict(facts.policy),
        "notes": list(facts.notes),
        "public_names": neutral_names(facts),
    }


def _default_bounds(name: str) -> str:
    from gridveil.grid.parameters import Bounds

    public = Bounds()[name]
    return f"{public.lower:g}:{public.upper:g}"


def _private_groups(facts: GridFacts) -> list[tuple[str, int, str, str]]:
    from gridveil.grid.parameters import PARAMETERS

    return [
        (name, size, PARAMETERS[name].unit, PARAMETERS[name].asset)
        for name, size in facts.sizes.items()
    ]
