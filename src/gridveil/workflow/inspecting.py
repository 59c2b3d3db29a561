"""What `inspect` finds in a grid: its public facts, by name."""

from __future__ import annotations

from typing import Any

from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import GridFacts
from gridveil.publication.release import detailed_names, neutral_names
from gridveil.workflow.detailed import treatments

# Facts whose names do not say what they are, or in which unit.
LABELS = {
    "loaded_buses": "buses with load",
    "zero_injection_buses": "buses with neither load nor machine",
    "total_load_mw": "total load [MW]",
    "base_mva": "base power [MVA]",
    "frequency_hz": "nominal frequency [Hz]",
    "omega_b_rad_s": "base speed ω_b [rad/s]",
    "operating_point": "operating point (voltages and angles in k)",
    "loads_published": "loads go into a bundle",
    "policy": "what to do with awkward data",
    "treatments": "treatments (what is done with each parameter)",
}


def public_facts(facts: GridFacts | DetailedFacts) -> dict[str, Any]:
    """Public facts of a grid in JSON's types; never a private value."""
    if not isinstance(facts, GridFacts):
        return _detailed(facts)
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


def _detailed(facts: DetailedFacts) -> dict[str, Any]:
    return {
        "name": facts.name,
        "model": facts.family,
        "buses": len(facts.buses),
        "lines": len(facts.edges),
        "units": len(facts.machines),
        "loads": len(facts.loads),
        "shunts": len(facts.shunts),
        "base_mva": facts.base_mva,
        "frequency_hz": facts.frequency_hz,
        "devices": {table.model: len(table.unit) for table in facts.public.devices},
        "treatments": treatments(facts),
        "operating_point": facts.operating_point,
        "how_loads_depend_on_voltage": facts.zip_model,
        "policy": dict(facts.policy),
        "notes": list(facts.notes),
        "public_names": detailed_names(facts),
    }


def listed_facts(facts: GridFacts | DetailedFacts) -> tuple[list[tuple[str, Any]], dict[str, str]]:
    """The same for a table, label and value (a text or lines); and the names buses would get."""
    shown = {name: value for name, value in public_facts(facts).items() if value != []}
    names = shown.pop("public_names")
    shown["policy"] = [f"{key} = {value or 'refuse'}" for key, value in shown["policy"].items()]
    for listed in ("devices", "treatments"):
        if listed in shown:
            shown[listed] = [f"{key}: {value}" for key, value in shown[listed].items()]
    labels = LABELS | ({"operating_point": "operating point"} if "treatments" in shown else {})
    return [
        (
            labels.get(key, key.replace("_", " ")),
            value if isinstance(value, list) else _cell(value),
        )
        for key, value in shown.items()
    ], names


def _cell(value: Any) -> str:
    """A fact as text: numbers to six digits, yes and no as words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else f"{value}"
