"""The XML files of a CGMES model, collected and checked before pypowsybl sees them: it reads much
that is wrong in silence.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from math import isfinite
from pathlib import Path
from xml.parsers import expat

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import MOST_FILES, UNPACKED_BYTES
from gridveil.foundation.reading import BadZip, plain_number, read_bytes, unzipped
from gridveil.readers.table import words

EXPECTED = "the XML files of a CGMES model (EQ, SSH, TP and SV), in a folder or a zip"
MOST_OBJECTS = 10**6  # what is kept of them takes a few hundred bytes each
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
HEADER = "http://iec.ch/TC57/61970-552/ModelDescription/1#"
CIM = re.compile(r"http://iec\.ch/TC57/(2013/CIM-schema-cim16|2009/CIM-schema-cim14|CIM100)#")
RESOURCE = re.compile(r"#.+|urn:uuid:.+|http://[\w./-]+#\w+\.\w+")
NUMBERS = frozenset(
    words(
        "r x bch gch b g p q ratedU ratedS nominalVoltage bPerSection gPerSection sections "
        "normalSections pfixed qfixed step normalStep lowStep highStep neutralStep neutralU "
        "stepVoltageIncrement stepPhaseShiftIncrement v angle targetValue sequenceNumber endNumber "
        "ratio position nomU frequency referencePriority activePower reactivePower"
    )
)
# References that need not lead anywhere: into regions of the boundary set, and of results to what
# they are results of.
LOOSE = re.compile(
    r"(Sv|TopologicalIsland|Model|OperationalLimit|DiagramObject)\w*\..*"
    r"|\w+\.Region|\w+\.LoadGroup|\w+\.LoadArea"
)
TRUTHS = frozenset(
    words("connected open controlEnabled enabled regulationStatus inService ltcFlag")
)
MODES = frozenset(
    f"RegulatingControlModeKind.{mode}"
    for mode in words(
        "voltage activePower reactivePower currentFlow admittance timeScheduled temperature "
        "powerFactor"
    )
)
PHASE_CHANGERS = ("Tabular", "Symmetrical", "Asymmetrical")
# What an object must have, in whichever profile: where it lacks something, pypowsybl takes a value
# of its own.
_LOAD, _MACHINE = (
    ("EnergyConsumer.p", "EnergyConsumer.q"),
    ("RotatingMachine.p", "RotatingMachine.q"),
)
REQUIRED = {
    "ACLineSegment": ("ACLineSegment.r", "ACLineSegment.x"),
    "SeriesCompensator": ("SeriesCompensator.r", "SeriesCompensator.x"),
    "PowerTransformerEnd": (
        "PowerTransformerEnd.r",
        "PowerTransformerEnd.x",
        "PowerTransformerEnd.ratedU",
    ),
    "BaseVoltage": ("BaseVoltage.nominalVoltage",),
    **dict.fromkeys(("EnergyConsumer", "ConformLoad", "NonConformLoad", "StationSupply"), _LOAD),
    "SynchronousMachine": (
        *_MACHINE,
        "SynchronousMachine.operatingMode",
        "SynchronousMachine.referencePriority",
    ),
    "AsynchronousMachine": _MACHINE,
    "ExternalNetworkInjection": ("ExternalNetworkInjection.p", "ExternalNetworkInjection.q"),
    "EquivalentInjection": ("EquivalentInjection.p", "EquivalentInjection.q"),
    "LinearShuntCompensator": ("LinearShuntCompensator.bPerSection", "ShuntCompensator.sections"),
    "Terminal": ("Terminal.ConductingEquipment", "ACDCTerminal.connected"),
    "RegulatingControl": tuple(
        f"RegulatingControl.{what}"
        for what in (words("mode Terminal enabled discrete targetValue targetValueUnitMultiplier"))
    ),
    "RatioTapChangerTablePoint": ("TapChangerTablePoint.step", "TapChangerTablePoint.ratio"),
    "PhaseTapChangerTablePoint": ("TapChangerTablePoint.step", "PhaseTapChangerTablePoint.angle"),
    "SvVoltage": ("SvVoltage.v", "SvVoltage.angle", "SvVoltage.TopologicalNode"),
    "SvInjection": ("SvInjection.pInjection", "SvInjection.TopologicalNode"),
    "RatioTapChanger": ("TapChanger.step",),
    **{f"PhaseTapChanger{kind}": ("TapChanger.step",) for kind in PHASE_CHANGERS},
    **dict.fromkeys(("Breaker", "Disconnector", "LoadBreakSwitch", "Switch"), ("Switch.open",)),
}


@dataclass(eq=False)
class CimModel:
    """What the files say of themselves. classes : how many objects of each; priorities,
    reference_nodes : of the angle.

    defined : file and class of each object.
    named : where one is referred to.
    said : the properties that each has.
    """

    classes: Counter[str] = field(default_factory=Counter)
    frequency_hz: float | None = None
    reference_nodes: set[str] = field(default_factory=set)
    priorities: dict[str, float] = field(default_factory=dict)
    defined: dict[str, tuple[str, str]] = field(default_factory=dict)
    said: dict[str, set[str]] = field(default_factory=dict)
    spaces: set[str] = field(default_factory=set)
    named: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    zero_lines: int = 0


def collect(path: Path) -> dict[str, bytes]:
    """Read the XML files of a folder, a zip (which may hold zips) or a single file, by their
    names.
    """
    if path.is_dir():
        listed = (file for file in path.iterdir() if file.suffix.lower() in (".xml", ".zip"))
        names = sorted(islice(listed, MOST_FILES + 1))
        if len(names) > MOST_FILES:
            raise InputError(
                f"there are more than {MOST_FILES} files in it",
                file=path.name,
                expected=EXPECTED,
                remedy="Keep the files of one model there.",
            )
    else:
        names = [path]
    files: dict[str, bytes] = {}
    left = UNPACKED_BYTES
    for place in names:
        name, data = place.name, read_bytes(place, EXPECTED, UNPACKED_BYTES)
        for inner, text in (
            _unzipped(name, data, left) if name.lower().endswith(".zip") else ((name, data),)
        ):
            left -= len(text)
            if left < 0:
                raise _too_large(path.name)
            if inner in files:
                raise InputError(
                    f"there are two files {inner}", file=path.name, expected="each profile once"
                )
            files[inner] = text
    if not files:
        raise InputError(
            "there is no XML file in it",
            file=path.name,
            expected=EXPECTED,
            remedy="Check the path.",
        )
    return files


def _too_large(file: str) -> InputError:
    return InputError(
        f"the files are larger than {UNPACKED_BYTES // 2**20} MB unpacked",
        file=file,
        expected=EXPECTED,
    )


def _unzipped(name: str, data: bytes, left: int, depth: int = 0) -> Iterator[tuple[str, bytes]]:
    """Yield the XML files of a zip, and of zips within it."""
    ends = (".xml", ".zip") if depth == 0 else (".xml",)
    refusal: InputError | None = None
    members: list[tuple[str, bytes]] = []
    try:
        members = unzipped(data, most=left, wanted=lambda inner: inner.lower().endswith(ends))
    except BadZip as error:
        remedy = "Copy the whole file again, or pack it anew."
        refusal = InputError(
            f"the zip is {error}",
            file=name,
            expected=f"a zip of up to {left // 2**20} MB",
            remedy=remedy,
        )
    if refusal is not None:
        raise refusal
    for place, content in members:
        inner = Path(place).name
        if inner.lower().endswith(".zip"):
            for unpacked in _unzipped(f"{name}/{inner}", content, left, depth + 1):
                left -= len(unpacked[1])
                yield unpacked
        else:
            left -= len(content)
            yield inner, content


def check(path: Path, files: Mapping[str, bytes]) -> CimModel:
    """Refuse files that are no RDF, numbers that are none, objects that occur twice and references
    to nowhere.
    """
    model = CimModel()
    for name, data in files.items():
        _Reader(name, model).read(data)
    for place, (name, line, what) in model.named.items():
        if place not in model.defined:
            raise InputError(
                f"{what} names an object that no file defines",
                file=name,
                line=line,
                expected="an object of one of the files",
                remedy="Check whether a file is missing, such as the boundary set (EQBD and TPBD).",
            )
    for name, (file, kind) in model.defined.items():
        for what in REQUIRED.get(kind, ()):
            if what not in model.said.get(name, ()):
                shown = name if name.isprintable() and len(name) <= 100 else "an object"
                raise InputError(
                    f"{kind} {shown} has no {what}",
                    file=file,
                    expected="it in one of the files (EQ or SSH)",
                    remedy="Check whether a profile is missing or cut short, or export the model "
                    "again.",
                )
    terminals = [name for name, (_, kind) in model.defined.items() if kind == "Terminal"]
    for node in ("Terminal.ConnectivityNode", "Terminal.TopologicalNode"):
        without = [name for name in terminals if node not in model.said.get(name, ())]
        if 0 < len(without) < len(terminals):
            raise InputError(
                f"{len(without)} terminals have no {node.partition('.')[2]}, and "
                f"{len(terminals) - len(without)} have one",
                file=path.name,
                expected="one for each terminal, or none for any",
                remedy="Check whether a file is cut short, or export the model again.",
            )
    if len(model.spaces) > 1:
        raise InputError(
            "the files are of several versions of CGMES", file=path.name, expected="one version"
        )
    if not model.classes["Terminal"] or not (
        model.classes["ACLineSegment"] + model.classes["PowerTransformer"]
    ):
        raise InputError(
            "there is no equipment in it",
            file=path.name,
            expected=EXPECTED,
            remedy="Give the folder or the zip with all the profiles, the equipment (EQ) among "
            "them.",
        )
    return model


class _Reader:
    """Go through one file: objects at depth 1, their properties at depth 2."""

    def __init__(self, file: str, model: CimModel) -> None:
        self.file, self.model = file, model
        self.depth, self.text, self.kind, self.id = 0, "", "", ""
        self.zero = {"r": False, "x": False}
        self.own: set[str] = set()
        self.spaces: set[str] = set()
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.parser.StartDoctypeDeclHandler = self.doctype

    def error(
        self, problem: str, expected: str, remedy: str = "Fix the file, or export it again."
    ) -> InputError:
        line = self.parser.CurrentLineNumber
        return InputError(
            problem, file=self.file, table=self.kind, line=line, expected=expected, remedy=remedy
        )

    def read(self, data: bytes) -> None:
        line = None
        try:
            self.parser.Parse(data, True)
        except expat.ExpatError as error:
            line = error.lineno
        except (ValueError, LookupError, UnicodeError):  # an encoding that Python does not know
            line = 1
        if line is not None:
            raise InputError(
                "this is no XML, or it is cut off",
                file=self.file,
                line=line,
                expected="well-formed XML",
                remedy="Copy the whole file again.",
            )
        spaces = {space for space in self.spaces if CIM.fullmatch(space)}
        if not spaces and self.spaces:
            raise InputError(
                "none of its objects is of CIM 14, 16 or 100",
                file=self.file,
                expected="a profile of CGMES",
            )
        self.model.spaces |= spaces

    def doctype(self, *_: object) -> None:
        raise self.error("the file has a document type, which CGMES does not use", "plain RDF")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        space, _, local = name.rpartition(" ")
        if self.depth == 0 and (space, local) != (RDF, "RDF"):
            raise self.error("this XML is no CGMES", "rdf:RDF")
        if self.depth == 1:
            self.kind, self.id, self.own = local, "", set()
            if space != HEADER:
                self.spaces.add(space)
            own, about = attributes.get(f"{RDF} ID"), attributes.get(f"{RDF} about")
            if local == "DifferenceModel":
                raise self.error("this is a difference model", "full models (md:FullModel)")
            if local != "FullModel":
                self._object(own, about)
        elif self.depth == 2:
            resource = attributes.get(f"{RDF} resource")
            if resource is not None and self.kind != "FullModel":
                self._said(local)
                if not RESOURCE.fullmatch(resource):
                    raise self.error(
                        f"{local} names nothing that there could be", "an object or a value of CIM"
                    )
                if local == "RegulatingControl.mode" and resource.rpartition("#")[2] not in MODES:
                    raise self.error(
                        f"{local} is unknown",
                        "a mode of CIM, such as RegulatingControlModeKind.voltage",
                    )
            if resource is not None and resource.startswith("#") and not LOOSE.fullmatch(local):
                self.model.named.setdefault(
                    _id(resource), (self.file, self.parser.CurrentLineNumber, local)
                )
            if resource is not None and local == "TopologicalIsland.AngleRefTopologicalNode":
                self.model.reference_nodes.add(_id(resource))
            self.text = ""
        elif self.depth > 2 and self.kind != "FullModel":
            raise self.error(
                "objects are nested deeper than in CGMES", "objects with plain properties"
            )
        self.depth += 1

    def _object(self, own: str | None, about: str | None) -> None:
        if (own is None) == (about is None):
            raise self.error("the object has no identifier, or two", "rdf:ID or rdf:about")
        self.id = _id(own or about or "")
        if own is not None or not (about or "").startswith("#"):
            if self.id in self.model.defined and self.model.defined[self.id][0] != self.file:
                # CGMES 3 describes an object in several files, each with rdf:about="urn:uuid:…"
                own = None
            elif self.id in self.model.defined:
                raise self.error("an object occurs twice", "each object once")
            else:
                self.model.classes[self.kind] += 1
                self.model.defined[self.id] = (self.file, self.kind)
                if len(self.model.defined) > MOST_OBJECTS:
                    raise self.error(
                        f"there are more than {MOST_OBJECTS} objects", "a model of a power grid"
                    )
        else:
            self.model.named.setdefault(
                self.id, (self.file, self.parser.CurrentLineNumber, "rdf:about")
            )

    def _said(self, local: str) -> None:
        if self.kind not in REQUIRED or local.startswith("IdentifiedObject."):
            return
        said = self.model.said.setdefault(self.id, set())
        if local in said:
            raise self.error(f"{local} occurs twice for one object", "each property once")
        said.add(sys.intern(local))

    def characters(self, text: str) -> None:
        if self.depth == 3 and len(self.text) < 1000:
            self.text += text

    def end(self, name: str) -> None:
        self.depth -= 1
        if self.depth == 1:
            self.model.zero_lines += self.kind == "ACLineSegment" and all(self.zero.values())
            self.zero = {"r": False, "x": False}
        if self.depth != 2:
            return
        local, text = name.rpartition(" ")[2], self.text.strip()
        what = local.rpartition(".")[2]
        if self.kind == "FullModel" or not (text or what in NUMBERS or what in TRUTHS):
            return
        self._said(local)
        if what in TRUTHS and text not in ("true", "false"):
            raise self.error(f"{local} is neither true nor false", "true or false")
        if what not in NUMBERS:
            return
        number = plain_number(text)
        if number is None or not isfinite(number):
            # The text is not quoted: it may hold a private figure.
            raise self.error(f"{local} is not a number", "a finite number")
        if local in self.own:
            raise self.error(f"{local} occurs twice", "each property once")
        self.own.add(local)
        if what in self.zero:
            self.zero[what] = number == 0
        if local == "BaseFrequency.frequency":
            self.model.frequency_hz = number
        if what == "referencePriority":
            self.model.priorities[self.id] = number


def _id(text: str) -> str:
    """An identifier without what differs from place to place: #_, urn:uuid: and _ before it."""
    return text.removeprefix("#").removeprefix("urn:uuid:").removeprefix("_")
