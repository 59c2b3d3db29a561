"""What pypowsybl makes of a CGMES model, in a guarded process."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from gridveil.readers.table import words

_ENDS = "bus1_id bus2_id voltage_level1_id voltage_level2_id"
# The columns that are used of each table of pypowsybl.
TABLES = {
    "buses": words("v_mag v_angle voltage_level_id fictitious_p0 fictitious_q0"),
    "voltage_levels": ["nominal_v"],
    "lines": words(f"r x g1 b1 g2 b2 {_ENDS}"),
    "2_windings_transformers": words(
        f"{_ENDS} rho alpha r_at_current_tap x_at_current_tap g_at_current_tap b_at_current_tap"
    ),
    "3_windings_transformers": (
        "rated_u0",
        *(f"{what}{leg}" for leg in "123" for what in ("rho", "alpha")),
        *(f"{what}{leg}_at_current_tap" for leg in "123" for what in "rxgb"),
        *(f"{what}{leg}_id" for leg in "123" for what in ("bus", "voltage_level")),
    ),
    "generators": words(
        "energy_source target_p target_q target_v voltage_regulator_on rated_s bus_id "
        "bus_breaker_bus_id regulated_bus_id equivalent_local_target_v CGMES.originalClass"
    ),
    "loads": words("p0 q0 bus_id CGMES.originalClass"),
    "batteries": words("target_p target_q bus_id"),
    "shunt_compensators": words("g b bus_id voltage_level_id"),
    "boundary_lines": words("r x g b p0 q0 bus_id voltage_level_id tie_line_id"),
    "tie_lines": words("boundary_line1_id boundary_line2_id"),
    "static_var_compensators": ["bus_id"],
    "hvdc_lines": (),
    "dc_lines": (),
}


def tables_of(network: Any) -> dict[str, dict[str, list[Any]]]:
    """Take the columns that are used out of a network of pypowsybl."""
    tables = {}
    for name, columns in TABLES.items():
        getter = getattr(network, f"get_{name}", None)
        if getter is None:  # another version of pypowsybl, which does not know such equipment
            tables[name] = {"id": []}
            continue
        table = getter(all_attributes=True)
        tables[name] = {"id": [str(index) for index in table.index]}
        for column in columns:
            if column in table.columns:
                tables[name][column] = table[column].tolist()
    return tables


def answer(data: bytes) -> tuple[dict[str, Any], bytes]:
    """In the child: the tables of the model in a zip."""
    from pypowsybl.network import load_from_binary_buffer  # pyright: ignore[reportPrivateImportUsage]

    return {"tables": tables_of(load_from_binary_buffer(BytesIO(data)))}, b""
