"""What pypowsybl makes of a CGMES model, in a process of its own: native code that a damaged file
may hang or kill.

The zip comes in through stdin and the tables leave through stdout: private values never touch a
disk.
"""

from __future__ import annotations

import json
import os
import sys
from io import BytesIO
from typing import Any

MEMORY = (
    2 * 2**30
)  # bytes; what pypowsybl reserves at its start (2 GB, of which it uses 0.3) comes on top
TABLES = {
    "buses": ("v_mag", "v_angle", "voltage_level_id", "fictitious_p0", "fictitious_q0"),
    "voltage_levels": ("nominal_v",),
    "lines": (
        "r",
        "x",
        "g1",
        "b1",
        "g2",
        "b2",
        "bus1_id",
        "bus2_id",
        "voltage_level1_id",
        "voltage_level2_id",
    ),
    "2_windings_transformers": (
        *("bus1_id", "bus2_id", "voltage_level1_id", "voltage_level2_id", "rho", "alpha"),
        *("r_at_current_tap", "x_at_current_tap", "g_at_current_tap", "b_at_current_tap"),
    ),
    "3_windings_transformers": (
        "rated_u0",
        *(f"{what}{leg}" for leg in "123" for what in ("rho", "alpha")),
        *(f"{what}{leg}_at_current_tap" for leg in "123" for what in "rxgb"),
        *(f"{what}{leg}_id" for leg in "123" for what in ("bus", "voltage_level")),
    ),
    "generators": (
        *(
            "energy_source",
            "target_p",
            "target_q",
            "target_v",
            "voltage_regulator_on",
            "rated_s",
            "bus_id",
        ),
        *(
            "bus_breaker_bus_id",
            "regulated_bus_id",
            "equivalent_local_target_v",
            "CGMES.originalClass",
        ),
    ),
    "loads": ("p0", "q0", "bus_id", "CGMES.originalClass"),
    "batteries": ("target_p", "target_q", "bus_id"),
    "shunt_compensators": ("g", "b", "bus_id", "voltage_level_id"),
    "boundary_lines": ("r", "x", "g", "b", "p0", "q0", "bus_id", "voltage_level_id", "tie_line_id"),
    "tie_lines": ("boundary_line1_id", "boundary_line2_id"),
    "static_var_compensators": ("bus_id",),
    "hvdc_lines": (),
    "dc_lines": (),
}


def tables_of(network: Any) -> dict[str, dict[str, list[Any]]]:
    """Take the columns that are used out of a network of pypowsybl."""
    found = {}
    for name, columns in TABLES.items():
        getter = getattr(network, f"get_{name}", None)
        if getter is None:  # another version of pypowsybl, which does not know such equipment
            found[name] = {"id": []}
            continue
        table = getter(all_attributes=True)
        found[name] = {"id": [str(index) for index in table.index]}
        for column in columns:
            if column in table.columns:
                found[name][column] = table[column].tolist()
    return found


def _leave_no_core() -> None:
    """Native code that a damaged file kills must not leave the grid behind in a core file; only
    where the system can.
    """
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError):
        pass


def _limit_memory() -> None:
    """Let the process die instead of filling the machine; only where the system can."""
    try:
        import resource
        from pathlib import Path

        reserved = next(
            line
            for line in Path("/proc/self/status").read_text().splitlines()
            if line.startswith("VmData")
        )
        limit = int(reserved.split()[1]) * 1024 + MEMORY
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    except (ImportError, OSError, StopIteration, ValueError):
        pass


def main() -> None:
    """Answer in JSON: {"tables": …} or {"error": the kind of exception}, never a message, which may
    hold private values.
    """
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    quiet = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # what Java prints must not mix with the answer
        os.dup2(quiet, stream)
    _leave_no_core()
    data = sys.stdin.buffer.read()
    # Where pandapower is installed pypowsybl loads it too, for a converter: seven seconds for
    # nothing.
    sys.modules.setdefault("pandapower", None)  # pyright: ignore[reportArgumentType]
    try:
        from pypowsybl.network import load_from_binary_buffer  # pyright: ignore[reportPrivateImportUsage]

        _limit_memory()  # from here on, on top of what pypowsybl reserved while it was loaded
        content: dict[str, Any] = {"tables": tables_of(load_from_binary_buffer(BytesIO(data)))}
    except ImportError:
        content = {"error": "ImportError"}
    except Exception as error:
        content = {"error": type(error).__name__}
    json.dump(content, answer)
    answer.close()
    os._exit(0)  # Java's threads may not end by themselves


if __name__ == "__main__":
    main()
