"""The tables of a pandapower net, checked: from its JSON by an allow-list, or from the data frames
of a net object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.foundation.reading import once
from gridveil.grid.facts import IntArray
from gridveil.readers.table import TYPED, Rows, Table, bus_positions

MOST_CELLS = 10**7  # a table; 82 000 buses with all their columns are two million


PANDAPOWER = replace(
    TYPED,
    columns=(
        "the columns of pandapower 2 or later",
        "Load the net in a newer pandapower, and save it again.",
    ),
)
INDEX = "row number"  # pandapower's own number of each row, as one column more


def frame_of(where: Rows, index: Sequence[Any], columns: Mapping[str, Sequence[Any]]) -> Table:
    """A table of a net."""
    return Table(where, {INDEX: index, **columns}, PANDAPOWER)


def numbering(frame: Table) -> list[int]:
    """The rows' own numbers, which other tables name."""
    index = list(frame.columns[INDEX])
    frame.refuse(
        [type(number) is not int or not 0 <= number < 2**53 for number in index],
        "the row's number is no whole number",
        expected="a number of 0 or more",
    )
    return index


def buses_of(frame: Table, name: str, known: Mapping[int, int]) -> IntArray:
    """Positions of the buses that a column names."""
    return bus_positions(frame.where, f"bus in {name}", frame.whole(name), known)


@dataclass(frozen=True, eq=False)
class Net:
    """A pandapower net. values : what it holds beside tables."""

    file: str
    tables: Mapping[str, Table]
    values: Mapping[str, Any]

    def frame(self, name: str) -> Table:
        """A table, empty if there is none."""
        return self.tables.get(name) or frame_of(Rows(self.file, name), (), {})

    def number(self, name: str) -> float:
        """A positive number of the net itself."""
        value = self.values.get(name)
        if (
            isinstance(value, (int, float, np.number))
            and not isinstance(value, bool)
            and 0 < value < 1e15
        ):
            return float(value)
        raise InputError(
            f"{name} of the net is missing or unusable",
            file=self.file,
            expected="a finite number above 0",
        )


def net_from_json(file: str, document: Any, wanted: Sequence[str]) -> Net:
    """Take the wanted tables out of a net's JSON.

    Nothing is imported or called by a name in the file.
    """
    content = (
        document.get("_object")
        if isinstance(document, dict) and document.get("_class") == "pandapowerNet"
        else None
    )
    if not isinstance(content, dict):
        raise InputError(
            "this is no pandapower net",
            file=file,
            expected="a file that pandapower.to_json wrote",
            remedy="Save the net again with pandapower.to_json(net, file).",
        )
    tables = {
        name: _table(file, name, content[name]) for name in wanted if content.get(name) is not None
    }
    return Net(
        file,
        tables,
        {key: value for key, value in content.items() if not isinstance(value, dict)}
        | _options(content),
    )


def net_from_object(file: str, net: Any, wanted: Sequence[str]) -> Net:
    """Take the wanted tables out of a net object."""
    tables = {}
    for name in wanted:
        table = net.get(name)
        if table is not None and hasattr(table, "columns"):
            columns = {
                str(column): table[column].astype(object).tolist() for column in table.columns
            }
            present = {str(column): table[column].notna().tolist() for column in table.columns}
            tables[name] = frame_of(
                Rows(file, name),
                table.index.tolist(),
                {
                    column: [
                        value if there else None
                        for value, there in zip(values, present[column], strict=True)
                    ]
                    for column, values in columns.items()
                },
            )
    return Net(
        file,
        tables,
        {key: net[key] for key in ("sn_mva", "f_hz", "format_version") if key in net}
        | _options(net),
    )


def _options(content: Mapping[str, Any]) -> dict[str, Any]:
    """What a user set for pandapower's power flow, of which only the transformers' model matters
    here.
    """
    options = content.get("user_pf_options")
    return {"trafo_model": options.get("trafo_model") if isinstance(options, dict) else None}


def _table(file: str, name: str, content: Any) -> Table:
    """Decode a data frame: {"_class": "DataFrame", "orient": "split", "_object": '{"columns",
    "index", "data"}'}.
    """
    where = Rows(file, name)

    def damaged(problem: str) -> InputError:
        return InputError(
            problem, file=file, table=name, expected="a table as pandapower.to_json writes it"
        )

    if (
        not isinstance(content, dict)
        or content.get("_class") != "DataFrame"
        or content.get("orient", "split") != "split"
    ):
        raise damaged("this is no table of pandapower")
    body = content.get("_object")
    if isinstance(body, str):
        try:
            body = json.loads(body, object_pairs_hook=once)
        except (ValueError, RecursionError):  # among them: the same key twice
            body = None
    if not isinstance(body, dict) or not all(
        isinstance(body.get(part), list) for part in ("columns", "index", "data")
    ):
        raise damaged("the table is damaged")
    header, index, rows = body["columns"], body["index"], body["data"]
    if content.get("is_multiindex") or content.get("is_multicolumn"):
        raise damaged("the table has several levels of names")
    if not all(isinstance(column, str) for column in header) or len(set(header)) < len(header):
        raise damaged("the names of its columns are damaged, or one occurs twice")
    if len(index) != len(rows):
        raise damaged("the table has another number of rows than of row numbers")
    if len(rows) * max(len(header), 1) > MOST_CELLS:
        raise damaged(f"the table has more than {MOST_CELLS} cells")
    for row, cells in enumerate(rows):
        if not isinstance(cells, list) or len(cells) != len(header):
            raise where.error(
                row,
                "the row has another number of columns than the table",
                expected=f"{len(header)} columns",
            )
    return frame_of(
        where, index, {column: [cells[i] for cells in rows] for i, column in enumerate(header)}
    )
