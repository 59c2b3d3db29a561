"""FMI 2.0: a source FMU for co-simulation and model exchange, and its binary by the C compiler that
is there.

`fmi2.c` beside this file is the whole program, the same for every release. Of a bundle, C gets
numbers only; its words stand in modelDescription.xml, escaped.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID
from xml.sax.saxutils import quoteattr

from gridveil.dynamics.events import Event
from gridveil.foundation.archive import canonical_zip
from gridveil.foundation.errors import GridveilError
from gridveil.publication.export.common import (
    NOT_WRITTEN,
    TextFormat,
    about,
)
from gridveil.publication.export.linear import ANGLE, HERTZ, Linear, Signal
from gridveil.publication.export.modelica import MODEL, number
from gridveil.publication.release import Release

FILE = f"{MODEL}.fmu"
DESCRIPTION, PROGRAM, NUMBERS = "modelDescription.xml", f"sources/{MODEL}.c", "sources/model.h"
BASE_UNITS = {HERTZ: ' s="-1"', ANGLE: ' rad="1"'}  # p.u. have none
NO_GUID = f"{{{UUID(int=0)}}}"
# States are deviations: usually so large [p.u., rad], by which solvers choose their tolerance.
NOMINAL = 0.001
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=c99", "-O3", "-shared", "-fPIC", "-Wall", "-Wextra")
LONGEST_BUILD_S = 600
SIMULATED = f"python -m fmpy simulate {FILE} --start-values P_G1 0.1 --output-file response.csv"


def write(release: Release, event: Event | None) -> dict[str, bytes]:
    """Write the FMU; its GUID is a digest of all that is in it."""
    del event
    own = Linear.of(release)
    told = about(release)
    program = Path(__file__).with_name("fmi2.c").read_bytes()
    parts = _description(own, told), _numbers(own, told)
    digest = hashlib.sha256(program + "".join(parts).encode()).digest()
    guid = f"{{{UUID(bytes=digest[:16])}}}"
    description, numbers = (part.replace(NO_GUID, guid, 1).encode("ascii") for part in parts)
    return {
        FILE: canonical_zip({DESCRIPTION: description, PROGRAM: program, NUMBERS: numbers}),
    }


def _numbers(own: Linear, told: tuple[str, ...]) -> str:
    """The header that the program includes."""
    lines = [
        *(f"/* {line.replace('*/', '* /')} */" for line in told),
        "/* Units of all signals stand in modelDescription.xml. */",
        f'#define GUID "{NO_GUID}"',
        f"#define NOMINAL {NOMINAL}",
        f"#define STATES {len(own.states)}",
        f"#define INPUTS {len(own.inputs)}",
        f"#define OUTPUTS {len(own.outputs)}",
    ]
    for name, (matrix, rows, columns) in own.matrices().items():
        lines.append(f"static const double {name}[{len(rows)} * {len(columns)}] = {{")
        lines += [f"  {', '.join(map(number, row.tolist()))}," for row in matrix]
        lines.append("};")
    return "\n".join([*lines, ""])


def _description(own: Linear, told: tuple[str, ...]) -> str:
    n, h = len(own.states), len(own.outputs)
    first_output = 2 * n + len(own.inputs) + 1
    derivatives = [f'<Unknown index="{n + i}"/>' for i in range(1, n + 1)]
    outputs = [f'<Unknown index="{first_output + i}"/>' for i in range(h)]
    units = sorted({one.unit for one, _, _ in _variables(own)})
    kind = (
        f'modelIdentifier="{MODEL}" canNotUseMemoryManagementFunctions="true"',
        f'<SourceFiles><File name="{MODEL}.c"/></SourceFiles>',
    )
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<fmiModelDescription fmiVersion="2.0" modelName="{MODEL}" guid="{NO_GUID}"',
        f"  description={_quoted(' '.join(told))}",
        '  generationTool="gridveil" variableNamingConvention="flat" numberOfEventIndicators="0">',
        f"<ModelExchange {kind[0]}>{kind[1]}</ModelExchange>",
        f'<CoSimulation {kind[0]} canHandleVariableCommunicationStepSize="true">{kind[1]}'
        "</CoSimulation>",
        "<UnitDefinitions>",
        *(f'<Unit name="{unit}"><BaseUnit{_base(unit)}/></Unit>' for unit in units),
        "</UnitDefinitions>",
        '<DefaultExperiment startTime="0" stopTime="30" stepSize="0.01"/>',
        "<ModelVariables>",
        *(
            f'<ScalarVariable name="{one.name}" valueReference="{reference}" {attributes} '
            f'description={_quoted(f"{one.words} [{one.unit}]")}><Real unit="{one.unit}" {real}/>'
            "</ScalarVariable>"
            for reference, (one, attributes, real) in enumerate(_variables(own))
        ),
        "</ModelVariables>",
        "<ModelStructure>",
        "<Outputs>",
        *outputs,
        "</Outputs>",
        "<Derivatives>",
        *derivatives,
        "</Derivatives>",
        "<InitialUnknowns>",
        *derivatives,
        *outputs,
        "</InitialUnknowns>",
        "</ModelStructure>",
        "</fmiModelDescription>",
        "",
    ]
    return "\n".join(lines)


def _base(unit: str) -> str:
    """A unit, or a unit a second, in units of the SI."""
    whole = unit.removesuffix("/s")
    return BASE_UNITS.get(whole, "") + (' s="-1"' if whole != unit else "")


def _variables(own: Linear) -> Iterator[tuple[Signal, str, str]]:
    """All variables in the order of their references, with their attributes and those of `Real`."""
    calculated = 'variability="continuous" initial="calculated"'
    start = f'start="0" nominal="{NOMINAL}"'
    for one in own.states:
        yield one, 'causality="local" variability="continuous" initial="exact"', start
    for i, one in enumerate(own.states, start=1):
        rate = Signal(f"der_{one.name}", f"{one.unit}/s", f"derivative of {one.words}")
        yield rate, f'causality="local" {calculated}', f'derivative="{i}"'
    for one in own.inputs:
        yield one, 'causality="input" variability="continuous"', 'start="0"'
    for one in own.outputs:
        yield one, f'causality="output" {calculated}', ""


def _quoted(text: str) -> str:
    """An attribute of XML in ASCII, whatever the text is."""
    plain = "".join(sign if sign.isprintable() else "?" for sign in text)
    return quoteattr(plain).encode("ascii", "xmlcharrefreplace").decode("ascii")


def compiled(fmu: bytes) -> bytes:
    """Add the binary of this platform to an FMU of `write`, by the compiler that CC names, or cc,
    gcc or clang.
    """
    with zipfile.ZipFile(io.BytesIO(fmu)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    folder, ending = _platform()
    with tempfile.TemporaryDirectory(prefix="gridveil-fmu-") as place:
        for name in (PROGRAM, NUMBERS):
            Path(place, Path(name).name).write_bytes(files[name])
        binary = Path(place, f"{MODEL}.{ending}")
        command = [_compiler(), *FLAGS, "-o", binary.name, f"{MODEL}.c", "-lm"]
        try:
            done = subprocess.run(  # noqa: S603 - the user's own compiler, and names of ours
                command, cwd=place, capture_output=True, text=True, timeout=LONGEST_BUILD_S
            )
            problem = "" if done.returncode == 0 else (done.stderr or done.stdout)[-400:].strip()
            failed = done.returncode != 0 or not binary.exists()
        except (OSError, subprocess.TimeoutExpired) as error:
            failed, problem = True, str(error)
        if failed:
            raise GridveilError(
                f"{command[0]} did not build the FMU's binary: {problem or 'it wrote no file'}",
                outcome=NOT_WRITTEN,
                remedy="Name another compiler in the variable CC, or leave --compile out and build "
                "the FMU elsewhere.",
            )
        files[f"binaries/{folder}/{binary.name}"] = binary.read_bytes()
    return canonical_zip(files)


def _compiler() -> str:
    named = os.environ.get("CC")
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, COMPILERS)), None)
    if found is None:
        raise GridveilError(
            f"CC names {named}, which is not a program here."
            if named
            else f"No C compiler was found: none of {', '.join(COMPILERS)}.",
            outcome=NOT_WRITTEN,
            remedy="Install gcc or clang, or leave --compile out and build the FMU elsewhere; FMPy "
            "can do it.",
        )
    return found


def _platform() -> tuple[str, str]:
    """FMI's name of this platform, and how its shared libraries end."""
    bits = 64 if sys.maxsize > 2**32 else 32
    for start, system, ending in (("win", "win", "dll"), ("darwin", "darwin", "dylib")):
        if sys.platform.startswith(start):
            return f"{system}{bits}", ending
    return f"linux{bits}", "so"


FORMAT = TextFormat(
    "fmu",
    1,
    write,
    runs=f"python -m fmpy compile {FILE} && {SIMULATED}",
    write_detailed=write,
    build=compiled,
    runs_built=SIMULATED,
)
