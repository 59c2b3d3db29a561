"""The tables of a pandapower net, checked: from its JSON by an allow-list, or from the data frames
of a net object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.grid.facts import Array, IntArray
from gridveil.readers.network import Flags, Rows, bus_positions

MOST_CELLS = 10**7  # a table; 82 000 buses with all their columns are two million


@dataclass(frozen=True, eq=False)
class Frame:
    """A table of a net.

    index : pandapower's own number of each row.
    columns : values as they are, None where there is none.
    """

    where: Rows
    index: Sequence[Any]
    columns: Mapping[str, Sequence[Any]]

    def __len__(self) -> int:
        return len(self.index)

    def numbers(
        self,
        name: str,
        default: float | None = None,
        *,
        above: float = -np.inf,
        lowest: float = -np.inf,
    ) -> Array:
        """Finite numbers, more than above and no less than lowest; default : where there is none,
        or no such column.
        """
        values = np.full(len(self), np.nan if default is None else default)
        limit = (
            f" above {above:g}"
            if np.isfinite(above)
            else f" of {lowest:g} or more"
            if np.isfinite(lowest)
            else ""
        )
        for row, value in enumerate(self._column(name, optional=default is not None)):
            if value is None or value != value:  # NaN, of whatever type
                if default is None:
                    raise self.where.error(
                        row, f"column {name} is missing", expected=f"a finite number{limit}"
                    )
                continue
            values[row] = self._number(row, name, value)
            if not np.isfinite(values[row]):
                raise self.where.error(
                    row, f"column {name} is infinite", expected=f"a finite number{limit}"
                )
            if not (values[row] > above and values[row] >= lowest):
                raise self.where.error(
                    row, f"column {name} is out of its range", expected=f"a number{limit}"
                )
        return values

    def flags(self, name: str, default: bool | None = None) -> Flags:
        """True or false; 1 and 0 will do."""
        found = []
        for row, value in enumerate(self._column(name, optional=default is not None, fill=default)):
            value = default if value is None or value != value else value
            if not (
                isinstance(value, (bool, np.bool_)) or (isinstance(value, Real) and value in (0, 1))
            ):
                raise self.where.error(
                    row, f"column {name} is neither true nor false", expected="true or false"
                )
            found.append(bool(value))
        return np.array(found, dtype=bool)

    def texts(self, name: str) -> tuple[str, ...]:
        """Short texts; "" where there is none."""
        column = self._column(name, optional=True)
        return tuple(
            text if isinstance(text, str) and len(text) <= 100 and text.isprintable() else ""
            for text in column
        )

    def whole(self, name: str) -> list[int]:
        """Whole numbers, such as those of buses."""
        found = []
        for row, value in enumerate(self._column(name)):
            number = np.nan if value is None else self._number(row, name, value)
            if not (abs(number) < 2**53 and number == int(number)):
                raise self.where.error(
                    row,
                    f"column {name} is no whole number",
                    expected="the number of a row of its table",
                )
            found.append(int(number))
        return found

    def numbering(self) -> list[int]:
        """The rows' own numbers, which other tables name."""
        for row, number in enumerate(self.index):
            if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**53:
                raise self.where.error(
                    row, "the row's number is no whole number", expected="a number of 0 or more"
                )
        return list(self.index)

    def at(self, name: str, known: Mapping[int, int]) -> IntArray:
        """Positions of the buses that a column names."""
        return bus_positions(self.where, f"bus in {name}", self.whole(name), known)

    def _column(self, name: str, *, optional: bool = False, fill: Any = None) -> Sequence[Any]:
        if name in self.columns:
            return self.columns[name]
        if optional or not len(self):
            return [fill] * len(self)
        raise InputError(
            f"column {name} is missing",
            file=self.where.file,
            table=self.where.table,
            expected="the columns of pandapower 2 or later",
            remedy="Load the net in a newer pandapower, and save it again.",
        )

    def _number(self, row: int, name: str, value: Any) -> float:
        if isinstance(value, Real) and not isinstance(value, (bool, np.bool_)):
            try:
                return float(value)
            except OverflowError:
                return np.inf
        # The value is not quoted: it may hold a private figure.
        raise self.where.error(row, f"column {name} is not a number", expected="a plain number")


@dataclass(frozen=True, eq=False)
class Net:
    """A pandapower net. values : what it holds beside tables."""

    file: str
    tables: Mapping[str, Frame]
    values: Mapping[str, Any]

    def frame(self, name: str) -> Frame:
        """A table, empty if there is none."""
        return self.tables.get(name) or Frame(Rows(self.file, name), (), {})

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
            tables[name] = Frame(
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


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that occurs twice, of which one would be lost."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError
    return dict(pairs)


def _table(file: str, name: str, content: Any) -> Frame:
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
            body = json.loads(body, object_pairs_hook=_once)
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
    return Frame(
        where, index, {column: [cells[i] for cells in rows] for i, column in enumerate(header)}
    )
