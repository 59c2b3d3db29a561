"""The command that begins the declaration of a record: record init."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gridveil.cli import options
from gridveil.cli.output import print_command, print_json, print_table, print_text

app = typer.Typer(
    help="Begin the declaration of a public record.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def record() -> None:
    """Begin the declaration of a public record."""


@app.command("init")
def init(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="CSV files, or .cfg files of COMTRADE pairs, of one event",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        options.option("TOML to write; default: beside the first file, under its name"),
    ] = None,
    time_format: Annotated[
        str | None,
        options.option(
            "how times are written, where it cannot be told: seconds, epoch, epoch-ms, iso, or a "
            "pattern such as '%d-%b-%Y %H:%M:%S'"
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Look at a record, and write a commented TOML that declares it, to edit.

    It finds delimiter, header, times, unit, flags, gaps and the largest changes. Nothing is used
    before you have filled in buses, event and origin.
    """
    from gridveil.workflow.records import init_record

    begun = init_record(files, out, time_format=time_format)
    left = [line for line in begun.text.splitlines() if '"EDIT"' in line]
    shown = [_file_json(one) for one in begun.found]
    if json:
        print_json({"declaration": str(begun.path), "files": shown, "to_fill_in": len(left)})
        return
    print_table(
        f"{begun.path}: what was found, for you to check",
        ("file", "times", "format", "frequencies", "unit", "rows", "interval [s]"),
        [
            (
                one["file"],
                ", ".join(one["time_column"]),
                one["time_format"],
                one["columns"],
                f"{one['unit']}, {one['values']}",
                str(one["rows"]),
                f"{one['interval_s']:.4g}",
            )
            for one in shown
        ],
        texts=5,
    )
    print_text(f"Fill in  {len(left)} places that say EDIT in {begun.path}: buses, event, origin")
    path, plot = begun.path, "record.png"
    print_command("Next", "gridveil", "inspect", "GRID", "--trajectory", path, "--plot", plot)


def _file_json(one: Any) -> dict[str, Any]:
    from gridveil.inference.records.skeleton import interval_of

    return {
        "file": one.file.path.name,
        "time_column": list(one.file.time_column),
        "time_format": one.file.time_format,
        "columns": list(one.file.locations),
        "unit": one.file.unit,
        "values": one.file.values,
        "nominal_hz": one.nominal_hz,
        "rows": len(one.time_s),
        "interval_s": interval_of(one.time_s),
        "delimiter": one.file.delimiter,
        "columns_left_alone": list(one.other_columns),
    }
