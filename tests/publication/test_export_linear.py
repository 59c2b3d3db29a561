"""Modelica, FMI 2 and CSV of matrices: other readers find the release's own linear model there."""

import io
import operator
import shutil
import subprocess
import xml.etree.ElementTree as ET
import zipfile
from dataclasses import replace

import fmpy
import numpy as np
import pandas as pd
import pytest
from fmpy.validation import validate_fmu
from pymoca import ast, parser
from scipy.linalg import expm

from cli_helpers import as_json, files_under, gridveil, make_release
from detailed_releases import demo as detailed_demo
from gridveil import Event
from gridveil.foundation.errors import BundleError
from gridveil.publication.export import export
from gridveil.publication.export.fmu import COMPILERS, FLAGS, compiled
from gridveil.publication.export.linear import Linear

FMU, MO = "gridveil_release.fmu", "gridveil_release.mo"
needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, COMPILERS)), reason="no C compiler is installed"
)
# Steps at one time and at several, shares of loads, lost loads, generation, MW.
EVENTS = (
    "load:G1=+0.1@1s",
    "uniform:+5%@1s",
    "lost:L1@2s",
    "gen:G2=-0.5@1s",
    "load:L2=+20MW@1s;load:G1=-0.1@3s;gen:G1=+0.05@3.005s",
)
CLOCK = {"horizon_s": 10.0, "dt_s": 0.005}
# Names that would be words, strings, tags or comments of a language.
HOSTILE = ('end"; x', "</Real>", "*/ exit(1); /*", "model", "a b", "a_b", "a&b", "é\n", "")


@pytest.fixture(scope="module", params=["swing", "detailed"])
def release(request, tmp_path_factory):
    if request.param == "detailed":
        return detailed_demo()
    return make_release(tmp_path_factory.mktemp("release"), demo=True, publish_loads=True)


@pytest.fixture(scope="module")
def fmu(release, tmp_path_factory):
    path = tmp_path_factory.mktemp("fmu") / FMU
    path.write_bytes(compiled(export(release, "fmu")[FMU]))
    return path


def with_hostile_states(release):
    names = [HOSTILE[i % len(HOSTILE)] for i in range(len(release.model.states))]
    return replace(release, model=replace(release.model, states=tuple(names)))


# --- FMI 2, by FMPy -------------------------------------------------------------------------------


def signals(release, event):
    """Loads by time as FMPy takes them: each time of a step twice, before it and after."""
    names = [f"P_{port}" for port in release.model.ports]
    size, rows = np.zeros(len(names)), [(0.0, *[0.0] * len(names))]
    for step in Event.parse(event, base_mva=release.model.base_mva).steps:
        rows.append((step.at_s, *size))
        size = size + step.whole(release.model)
        rows.append((step.at_s, *size))
    rows.append((1e3, *size))
    reactive = [one.name for one in Linear.of(release).inputs if one.name not in names]
    rows = [(*row, *[0.0] * len(reactive)) for row in rows]
    return np.array(rows, dtype=[(name, float) for name in ("time", *names, *reactive)])


def simulated(release, fmu, event, **options):
    """Frequency at all ports [Hz]: (time, ports), and their times [s]."""
    given = {"stop_time": CLOCK["horizon_s"], "output_interval": CLOCK["dt_s"]} | options
    names = [f"f_{port}" for port in release.model.ports]
    found = fmpy.simulate_fmu(str(fmu), input=signals(release, event), output=names, **given)
    return np.column_stack([found[name] for name in names]), found["time"]


@needs_compiler
def test_fmpy_finds_no_problem_in_the_fmu(release, fmu):
    assert validate_fmu(str(fmu)) == []
    described = fmpy.read_model_description(str(fmu))
    units = {one.name: one.unit for one in described.modelVariables}
    assert units["f_G1"] == "Hz"
    assert units["P_G1"] == "p.u. power"
    bases = {one.name: one.baseUnit for one in described.unitDefinitions}
    assert bases.keys() == set(units.values())
    per_second = {name for name, base in bases.items() if base.s == -1}
    assert per_second == {"Hz", *(name for name in bases if name.endswith("/s"))}
    assert {name for name, base in bases.items() if base.rad == 1} == {"rad", "rad/s"}
    assert fmpy.supported_platforms(str(fmu)) == ["c-code", "linux64"]


@needs_compiler
@pytest.mark.parametrize("event", EVENTS)
def test_the_fmu_answers_as_the_release_does(release, fmu, event):
    ours = release.simulate(event, **CLOCK, buses=release.model.ports)
    theirs, times = simulated(release, fmu, event)
    assert np.allclose(times, ours.time_s)
    # At a step itself FMPy reads what was before it, `simulate` what is after: loads that act at
    # once on frequency (D) differ there.
    at = {step.at_s for step in Event.parse(event, base_mva=100).steps}
    other = [place for place, time in enumerate(times) if round(time, 6) not in at]
    wanted = ours.omega * release.model.frequency_hz
    assert np.abs(theirs - wanted)[other].max() <= 1e-9 * np.abs(wanted).max()


@needs_compiler
def test_the_fmu_for_model_exchange_answers_as_the_release_does(release, fmu):
    ours = release.simulate(EVENTS[0], **CLOCK, buses=release.model.machines)
    theirs, times = simulated(
        release, fmu, EVENTS[0], fmi_type="ModelExchange", relative_tolerance=1e-9
    )
    wanted = ours.omega * release.model.frequency_hz
    for place in range(len(release.model.machines)):
        seen = np.interp(ours.time_s, times, theirs[:, place])
        assert np.abs(seen - wanted[:, place]).max() <= 1e-6 * np.abs(wanted).max()


@needs_compiler
def test_the_fmus_steps_may_have_any_length(release, fmu):
    """Steps that divide nothing, and others between, reach the same end."""
    even, _ = simulated(release, fmu, EVENTS[4])
    odd, times = simulated(release, fmu, EVENTS[4], output_interval=0.37)
    assert times[-1] == CLOCK["horizon_s"]
    assert np.abs(odd[-1] - even[-1]).max() <= 1e-9 * np.abs(even).max()


@needs_compiler
def test_the_fmus_step_is_the_matrix_exponential_of_scipy(release, fmu):
    """One step from arbitrary states under arbitrary inputs, reactive ones too, against expm."""
    own, h = Linear.of(release), 0.25
    n, s = own.B.shape
    x, u = np.random.default_rng(1).normal(size=n), np.random.default_rng(2).normal(size=s)
    F = np.zeros((n + s, n + s))
    F[:n, :n], F[:n, n:] = own.A, own.B
    wanted = (expm(F * h) @ np.concatenate([x, u]))[:n]
    start = {one.name: value for one, value in zip(own.states, x, strict=True)}
    start |= {one.name: value for one, value in zip(own.inputs, u, strict=True)}
    names = [one.name for one in (*own.states, *own.outputs)]
    options = {"stop_time": h, "output_interval": h, "start_values": start, "output": names}
    found = fmpy.simulate_fmu(str(fmu), **options)[-1]
    seen = np.array([found[name] for name in names])
    assert np.allclose(seen[:n], wanted, atol=1e-11 * np.abs(wanted).max())
    outputs = own.C @ wanted + own.D @ u
    assert np.allclose(seen[n:], outputs, atol=1e-11 * np.abs(outputs).max())


@needs_compiler
def test_an_fmu_with_the_description_of_another_is_not_started(release, fmu, tmp_path):
    with zipfile.ZipFile(fmu) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    guid = ET.fromstring(files["modelDescription.xml"]).get("guid").encode()
    files["modelDescription.xml"] = files["modelDescription.xml"].replace(guid, b"{another}")
    with zipfile.ZipFile(tmp_path / FMU, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    with pytest.raises(Exception, match="instantiate"):
        simulated(release, tmp_path / FMU, EVENTS[0])


def test_an_fmus_guid_is_of_its_content(release):
    def guid(one):
        with zipfile.ZipFile(io.BytesIO(export(one, "fmu")[FMU])) as archive:
            text = archive.read("modelDescription.xml").decode("ascii")
            assert ET.fromstring(text).get("guid") in archive.read("sources/model.h").decode()
            return ET.fromstring(text).get("guid")

    moved = replace(release, model=replace(release.model, frequency_hz=50.0))
    assert guid(release) == guid(release) != guid(moved)


@needs_compiler
def test_the_program_compiles_without_a_warning(release, tmp_path):
    with zipfile.ZipFile(io.BytesIO(export(release, "fmu")[FMU])) as archive:
        archive.extractall(tmp_path)
    command = [next(filter(None, map(shutil.which, COMPILERS))), *FLAGS, "-Werror", "-pedantic"]
    prefix = "-DFMI2_FUNCTION_PREFIX=gridveil_release_"
    for more in ([], [prefix]):
        done = subprocess.run(
            [*command, *more, "-o", "made.so", "sources/gridveil_release.c", "-lm"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert b"gridveil_release_fmi2DoStep" in (tmp_path / "made.so").read_bytes()


# --- Modelica, by pymoca --------------------------------------------------------------------------


def value(node, known):
    """Compute an expression of Modelica as pymoca parsed it."""
    if isinstance(node, ast.Primary):
        return float(node.value)
    if isinstance(node, ast.Array):
        return np.array([value(one, known) for one in node.values])
    if isinstance(node, ast.ComponentRef):
        indices = [int(value(one, known)) - 1 for side in node.indices for one in side if one]
        return known[node.name][indices[0]] if indices else known[node.name]
    operands = [value(one, known) for one in node.operands]
    if len(operands) == 1:
        return -operands[0] if str(node.operator) == "-" else operands[0]
    return {"+": operator.add, "*": operator.matmul}[str(node.operator)](*operands)


def given(symbol, what):
    """What a declaration says: its value, its unit."""
    (found,) = [
        one.value.modifications[0]
        for one in symbol.class_modification.arguments
        if one.value.component.name == what
    ]
    return found


def parsed(release):
    text = export(release, "modelica")[MO].decode("ascii")
    return parser.parse(text).classes["gridveil_release"]


def test_pymoca_reads_the_releases_matrices(release):
    model, own = parsed(release), Linear.of(release)
    for name in "ABCD":
        found, wanted = value(given(model.symbols[name], "value"), {}), getattr(own, name)
        assert found.shape == wanted.shape
        assert np.abs(found - wanted).max() <= 1e-12 * np.abs(wanted).max()


def test_the_equations_that_pymoca_reads_are_the_releases(release):
    """The equations, computed as they stand, at arbitrary states and inputs."""
    model, own = parsed(release), Linear.of(release)
    for kind in ("input", "output"):
        listed = [name for name, symbol in model.symbols.items() if kind in symbol.prefixes]
        assert listed == [one.name for one in getattr(own, f"{kind}s")]
    assert given(model.symbols["f_G1"], "unit").value == "Hz"
    known = {name: value(given(model.symbols[name], "value"), {}) for name in "ABCD"}
    x, u = (np.random.default_rng(1).normal(size=len(side)) for side in (own.states, own.inputs))
    known |= {"x": x} | {one.name: size for one, size in zip(own.inputs, u, strict=True)}
    for equation in model.equations:
        left = equation.left
        name = left.name if isinstance(left, ast.ComponentRef) else f"{left.operator}"
        known[name] = value(equation.right, known)
    assert np.allclose(known["der"], own.A @ x + own.B @ u, rtol=1e-12)
    seen = [known[one.name] for one in own.outputs]
    assert np.allclose(seen, own.C @ x + own.D @ u, rtol=1e-12)


# --- CSV ------------------------------------------------------------------------------------------


def test_pandas_reads_the_matrices_in_full(release):
    files, own = export(release, "matrices"), Linear.of(release)
    assert list(files) == [f"matrix_{name}.csv" for name in "ABCD"]
    for name, (matrix, rows, columns) in own.matrices().items():
        table = pd.read_csv(
            io.BytesIO(files[f"matrix_{name}.csv"]),
            comment="#",
            index_col=0,
            float_precision="round_trip",
        )
        assert np.array_equal(table.to_numpy(), matrix)
        assert list(table.index) == [f"{one.name} [{one.unit}]" for one in rows]
        assert list(table.columns) == [f"{one.name} [{one.unit}]" for one in columns]


# --- names that a bundle brings -------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile():
    return with_hostile_states(detailed_demo())


def test_hostile_names_become_identifiers_no_two_alike(hostile):
    own = Linear.of(hostile)
    names = [one.name for one in (*own.states, *own.inputs, *own.outputs)]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() and name.isascii() for name in names)


def test_hostile_names_break_no_format(hostile, tmp_path):
    (tmp_path / FMU).write_bytes(export(hostile, "fmu")[FMU])
    assert validate_fmu(str(tmp_path / FMU)) == []
    with zipfile.ZipFile(tmp_path / FMU) as archive:
        assert b"exit" not in archive.read("sources/model.h")
    found = value(given(parsed(hostile).symbols["A"], "value"), {})
    assert np.array_equal(found, Linear.of(hostile).A)
    for content in export(hostile, "matrices").values():
        pd.read_csv(io.BytesIO(content), comment="#", index_col=0)


def test_a_number_that_is_not_finite_is_refused(hostile):
    broken = replace(hostile, model=replace(hostile.model, A=np.full_like(hostile.model.A, np.inf)))
    for to in ("modelica", "fmu", "matrices"):
        with pytest.raises(BundleError, match=r"not finite\. Nothing was written"):
            export(broken, to)


def test_more_states_than_devices_have_are_refused(hostile):
    own, n = hostile.model, 30 * hostile.model.units + 1
    sizes = {"A": (n, n), "B": (n, own.B.shape[1]), "C": (len(own.C), n)}
    sizes |= {"given": (len(own.given), n), "turn": (len(own.turn), n)}
    grown = replace(
        own,
        states=tuple(map(str, range(n))),
        **{name: np.zeros(shape) for name, shape in sizes.items()},
    )
    with pytest.raises(BundleError, match=r"more states than devices"):
        export(replace(hostile, model=grown), "fmu")


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle")
    make_release(folder, demo=True, publish_loads=True).save(folder / "bundle")
    return folder / "bundle"


@needs_compiler
def test_the_command_compiles_the_fmu(bundle, tmp_path):
    out = tmp_path / "out"
    told = as_json(gridveil("export", bundle, "--to=fmu", "--compile", "--out", out, "--json"))
    assert told["files"] == [FMU]
    assert "compile" not in told["run"]
    assert validate_fmu(str(out / FMU)) == []
    with zipfile.ZipFile(out / FMU) as archive:
        assert archive.namelist() == [
            "binaries/linux64/gridveil_release.so",
            "modelDescription.xml",
            "sources/gridveil_release.c",
            "sources/model.h",
        ]


@pytest.mark.parametrize(
    ("compiler", "words"),
    [
        (None, "No C compiler was found: none of cc, gcc, clang. Nothing was written."),
        ("nothing-of-that-name", "CC names nothing-of-that-name, which is not a program here."),
        ("/bin/false", "/bin/false did not build the FMU's binary"),
    ],
)
def test_without_a_compiler_that_works_nothing_is_written(
    bundle, tmp_path, monkeypatch, compiler, words
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    if compiler:
        monkeypatch.setenv("CC", compiler)
    done = gridveil("export", bundle, "--to=fmu", "--compile", "--out", tmp_path / "out")
    assert (done.code, done.out) == (2, "")
    assert words in " ".join(done.err.split())
    assert files_under(tmp_path) == {}


def test_what_has_no_program_is_not_compiled(bundle, tmp_path):
    done = gridveil("export", bundle, "--to=csv", "--compile", "--out", tmp_path / "out")
    assert done.code == 2
    assert "The format csv has nothing to compile" in done.err
    assert files_under(tmp_path) == {}
