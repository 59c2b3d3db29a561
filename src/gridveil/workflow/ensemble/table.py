"""Rows as Parquet: the same rows give the same bytes, and a file says of itself what it is and
whether it is whole.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from gridveil.foundation.errors import OptionError
from gridveil.workflow.ensemble.batch import FIGURES, Row

DEMO = (
    "A demo for ever: noise of known seeds on public cases, beside the truth. Nothing of it is a "
    "release, no ledger is charged, and no privacy follows from it."
)
KEY = b"gridveil"
TEXTS = ("hash", "case", "adjacency", "mechanism", "epsilon", "fit")
COLUMNS = (*TEXTS, "seed", "L", *FIGURES, "discarded")


def parquet() -> tuple[ModuleType, ModuleType]:
    """Import pyarrow and its parquet, or name the extra that brings them."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise OptionError(
            "pyarrow is not installed.",
            expected="gridveil with the extra ensemble",
            remedy="pip install 'gridveil[ensemble]'",
        ) from None
    return pyarrow, pyarrow.parquet


def encode(rows: Sequence[Row]) -> bytes:
    """Rows as a Parquet file, with a digest of them inside."""
    pa, pq = parquet()
    kinds = dict.fromkeys(TEXTS, pa.string()) | {"seed": pa.int64(), "discarded": pa.bool_()}
    schema = pa.schema([(name, kinds.get(name, pa.float64())) for name in COLUMNS])
    said = {"demo": True, "words": DEMO, "content": digest_of_rows(rows)}
    schema = schema.with_metadata({KEY: json.dumps(said, sort_keys=True)})
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def decode(data: bytes) -> list[Row]:
    """Read rows back; ValueError: they are not those that were written."""
    pa, pq = parquet()
    try:
        table = pq.read_table(io.BytesIO(data))
    except pa.ArrowException as error:
        raise ValueError("no Parquet") from error
    rows: list[Any] = table.to_pylist()
    said = json.loads((table.schema.metadata or {})[KEY])
    if said["content"] != digest_of_rows(rows):
        raise ValueError("other rows than were written")
    return rows


def digest_of_rows(rows: Sequence[Row]) -> str:
    """SHA-256 of rows, in hex; every bit of a number counts."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps([row[name] for name in COLUMNS]).encode() + b"\n")
    return digest.hexdigest()
