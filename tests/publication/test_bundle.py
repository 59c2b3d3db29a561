"""A bundle is whole or not there, reads back bit by bit, and shows any change."""

import errno
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from scipy.io import loadmat

from bundle_helpers import edit_document, seal
from cli_helpers import charges, files_under, gridveil, make_release, write_grid
from gridveil import load, verify
from gridveil.foundation import archive
from gridveil.foundation.archive import canonical_zip
from gridveil.foundation.errors import BundleError, GridveilError, OutputExists
from gridveil.grid.parameters import Bounds
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS
from gridveil.publication.bundle import contents, is_bundle, write
from gridveil.publication.schema import ReleaseDocument
from gridveil.readers.cases import open_grid
from gridveil.vault.sampler import DemoSampler
from gridveil.workflow.publish import publish
from measured_helpers import write_measured

NAMES = (
    "README.md",
    "SHA256SUMS",
    "card.html",
    "ensemble.mat",
    "model.mat",
    "reference.csv",
    "release.json",
)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    return make_release(tmp_path_factory.mktemp("real"))


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return make_release(tmp_path_factory.mktemp("demo"), demo=True, publish_loads=True)


@pytest.fixture
def bundle(real, tmp_path):
    real.save(tmp_path / "bundle")
    return tmp_path / "bundle"


# --- round trip -----------------------------------------------------------------------------------


def assert_same(found, release):
    for name in release.model.arrays:
        ours, theirs = getattr(release.model, name), getattr(found.model, name)
        assert (theirs.dtype, theirs.shape, theirs.tobytes()) == (
            ours.dtype,
            ours.shape,
            ours.tobytes(),
        ), name
    for name in ("ports", "omega_b", "frequency_hz", "base_mva"):
        assert getattr(found.model, name) == getattr(release.model, name), name
    for name in ("guarantee", "bounds", "clipped", "fitted", "demo"):
        assert getattr(found, name) == getattr(release, name), name


@pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
@pytest.mark.parametrize("kind", ["real", "demo"])
def test_what_is_saved_is_loaded_bit_by_bit(kind, name, tmp_path, request):
    release = request.getfixturevalue(kind)
    saved = release.save(tmp_path / "new" / "folders" / name)
    assert_same(load(tmp_path / "new" / "folders" / name), release)
    assert verify(tmp_path / "new" / "folders" / name) == saved
    certified = () if kind == "demo" else ("certificate.json", "certificate.txt")
    assert (saved.files, saved.demo) == (tuple(sorted(NAMES + certified)), kind == "demo")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: re.sub(r"(?m)^(  [23] [23]0 .* 100) 1 100", r"\1 0 100", text),
        lambda text: text.replace("4 1 40 9", "4 1 0 0").replace("5 1 30 5", "5 1 0 0"),
    ],
    ids=["one machine", "no loaded bus"],
)
def test_a_model_with_empty_arrays_is_loaded_too(tmp_path, change):
    grid = write_grid(tmp_path)
    grid.write_text(change(grid.read_text()))
    grid.with_suffix(".toml").write_text("[dynamics]\ninertia = 10\ndamping = 5\n")
    settings = {
        "epsilon": 1,
        "adjacency": Adjacency(),
        "bounds": Bounds(),
        "ledger": None,
        "sampler": DemoSampler(1),
        "allocation": ITEMS,
    }
    release = publish(open_grid(str(grid)), **settings)
    assert 0 in {values.size for values in (release.model.k_r, release.model.K_ac)}
    release.save(tmp_path / "bundle")
    verify(tmp_path / "bundle")
    assert_same(load(tmp_path / "bundle"), release)


def test_the_same_release_gives_the_same_bytes(real, tmp_path):
    for name in ("a", "b", "a.zip", "b.zip"):
        real.save(tmp_path / name)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    folder = {path.name: data for path, data in files_under(tmp_path / "a").items()}
    assert folder == {path.name: data for path, data in files_under(tmp_path / "b").items()}
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == folder


def test_other_programs_read_the_arrays_and_the_checksums(bundle, real):
    arrays = loadmat(bundle / "model.mat")
    for name in real.model.arrays:
        assert np.array_equal(
            arrays[name].ravel(), getattr(real.model, name).ravel(), equal_nan=True
        ), name
    assert np.array_equal(arrays["edges"], real.model.edges + 1)
    subprocess.run(
        ["sha256sum", "--strict", "--check", "--quiet", "SHA256SUMS"], cwd=bundle, check=True
    )


def test_the_arrays_name_neither_platform_nor_time(bundle):
    assert (bundle / "model.mat").read_bytes()[
        :116
    ].rstrip() == b"MATLAB 5.0 MAT-file, gridveil release"


def test_the_document_follows_its_json_schema(bundle):
    schema = ReleaseDocument.model_json_schema()
    document = json.loads((bundle / "release.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | {"surprise": 1}, schema)


def test_the_lines_of_the_readme_run_inside_the_bundle(demo, tmp_path):
    demo.save(tmp_path / "bundle")
    readme = (tmp_path / "bundle" / "README.md").read_text()
    lines = readme.split("```")[1].strip().splitlines()
    assert [line.split()[0] for line in lines] == ["gridveil", "gridveil", "python"]
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(
        "\n".join(["set -e", *lines]),
        shell=True,
        cwd=tmp_path / "bundle",
        env=environment,
        check=True,
    )
    verify(tmp_path / "bundle")


def test_a_demo_says_so_everywhere_and_a_real_release_nowhere(real, demo, tmp_path):
    for release, name in ((real, "real"), (demo, "made up")):
        release.save(tmp_path / name)
        done = gridveil("verify", tmp_path / name)
        texts = [
            done.out.replace(str(tmp_path), ""),
            (tmp_path / name / "README.md").read_text(),
            (tmp_path / name / "release.json").read_text(),
        ]
        assert done.code == 0
        assert [("demo" in text.replace('"demo": false', "").lower()) for text in texts] == [
            release.demo
        ] * 3


# --- any change is found --------------------------------------------------------------------------


@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
def test_any_flipped_bit_of_a_file_is_found(bundle, name, every):
    path = bundle / name
    good = path.read_bytes()
    stride = every if len(good) < 6000 else 13 * every
    flips = {(position, position % 8) for position in range(0, len(good), stride)}
    flips |= {(position, bit) for position in range(0, len(good), 97 * stride) for bit in range(8)}
    for position, bit in flips:
        path.write_bytes(
            good[:position] + bytes([good[position] ^ 1 << bit]) + good[position + 1 :]
        )
        with pytest.raises(BundleError):
            verify(bundle)
    path.write_bytes(good)
    verify(bundle)


@pytest.mark.slow
def test_any_flipped_bit_of_a_zip_is_found_or_leaves_its_contents_whole(real, tmp_path):
    path = tmp_path / "bundle.zip"
    whole = real.save(path)
    good = path.read_bytes()
    directory = good.index(b"PK\x01\x02")
    positions = [*range(0, directory, 97), *range(directory, len(good))]
    for position in positions:
        path.write_bytes(
            good[:position] + bytes([good[position] ^ 1 << position % 8]) + good[position + 1 :]
        )
        try:
            found = verify(path)
        except BundleError:
            continue
        assert position >= directory or good[position - 30 : position + 30].count(b"PK\x03\x04"), (
            "only times and the like may differ"
        )
        assert found == replace(whole, repacked=True)


@pytest.mark.parametrize(
    "changed",
    [lambda data: data[:-1], lambda data: data + b"\n", lambda data: b"\0" + data, lambda _: b""],
)
@pytest.mark.parametrize("name", [*NAMES, "bundle.zip"])
def test_a_byte_more_or_less_is_found(real, bundle, name, changed):
    real.save(bundle.parent / "bundle.zip")
    path = bundle.parent / name if name.endswith(".zip") else bundle / name
    path.write_bytes(changed(path.read_bytes()))
    with pytest.raises(BundleError):
        verify(path if name.endswith(".zip") else bundle)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_named(bundle, name):
    (bundle / name).unlink()
    with pytest.raises(BundleError, match=re.escape(f"{name} is missing")):
        verify(bundle)


@pytest.mark.parametrize(
    "add",
    [
        lambda bundle: (bundle / "extra").write_text("hello"),
        lambda bundle: (bundle / "extra").mkdir(),
        lambda bundle: (bundle / "extra").symlink_to(bundle / "README.md"),
        lambda bundle: (bundle / "extra").symlink_to("nowhere"),
        lambda bundle: os.mkfifo(bundle / "extra"),
    ],
    ids=["file", "folder", "symlink", "dangling symlink", "pipe"],
)
def test_anything_extra_is_named(bundle, add):
    add(bundle)
    with pytest.raises(BundleError, match=r"extra .*not listed in SHA256SUMS"):
        verify(bundle)


@pytest.mark.parametrize("name", [".DS_Store", "desktop.ini", "Thumbs.db"])
def test_what_finder_and_explorer_leave_in_a_folder_is_ignored(bundle, name):
    digest = verify(bundle).digest
    (bundle / name).write_bytes(b"\0")
    report = verify(bundle)
    assert (report.digest, report.ignored, report.repacked) == (digest, 1, False)
    assert name not in report.files
    assert "Ignored: 1 file(s)" in gridveil("verify", bundle).out
    (bundle / name).unlink()
    (bundle / name).symlink_to(bundle / "README.md")
    with pytest.raises(BundleError, match="not a plain file"):
        verify(bundle)


def test_a_symlink_in_the_place_of_a_file_is_found(bundle):
    (bundle / "model.mat").rename(bundle.parent / "model.mat")
    (bundle / "model.mat").symlink_to(bundle.parent / "model.mat")
    with pytest.raises(BundleError, match=r"model\.mat is not a plain file"):
        verify(bundle)


def zipped(change):
    """A zip of a bundle's files that a change has gone over."""

    def make(files, path):
        with zipfile.ZipFile(path, "w") as archive:
            change(archive, files)

    return make


@pytest.mark.parametrize(
    "make",
    [
        zipped(lambda archive, files: archive.writestr("a/b", b"")),
        lambda files, path: path.write_bytes(canonical_zip(files | {"extra": b""})),
        lambda files, path: path.write_bytes(
            canonical_zip({name: data for name, data in files.items() if name != "model.mat"})
        ),
        lambda files, path: path.write_bytes(b"no zip"),
    ],
    ids=["other files", "extra file", "missing file", "no zip"],
)
def test_any_other_zip_is_refused(real, tmp_path, make):
    make(contents(real), tmp_path / "bundle.zip")
    with pytest.raises(BundleError):
        verify(tmp_path / "bundle.zip")


def damaged_directory(real, path):
    """A zip with a good end record whose directory is damaged: it sets out to be a zip, and cannot
    be opened.
    """
    real.save(path)
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02")] ^= 1
    path.write_bytes(data)


def of_a_future_zip(real, path):
    """A zip that asks for a version of zip that nobody knows."""
    real.save(path)
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 6] = 99
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [damaged_directory, of_a_future_zip])
def test_a_zip_that_cannot_be_opened_is_no_bundle_and_no_grid(real, tmp_path, monkeypatch, damage):
    monkeypatch.setenv("GRIDVEIL_LEDGER", str(tmp_path / "ledger.sqlite"))
    path = tmp_path / "bad.zip"
    damage(real, path)
    assert not is_bundle(path)
    record = write_measured(tmp_path / "in")
    for arguments in (
        ["inspect", path],
        ["leakage", path, "--trajectory", record],
        ["leakage", "star5", "--trajectory", record, "--surrogate", path],
        ["verify", path],
    ):
        done = gridveil(*arguments)
        assert done.code in (1, 2) and "damaged" in done.err, (arguments, done.err)


def test_verify_names_the_changed_file_and_leaves_with_1(bundle):
    assert gridveil("verify", bundle).code == 0
    (bundle / "reference.csv").write_text("time_s\n")
    for arguments in (["verify", bundle], ["simulate", bundle, "--event=load:G1=0.1"]):
        done = gridveil(*arguments)
        assert (done.code, done.out) == (1, "")
        assert "reference.csv was changed. Nothing was loaded. Do not use it" in done.err


def test_a_file_that_is_no_bundle_is_told_from_a_damaged_one(bundle, tmp_path):
    (tmp_path / "p.py").write_text("print()", encoding="utf-8")
    done = gridveil("verify", tmp_path / "p.py")
    assert (done.code, "p.py is no bundle; expected a bundle's folder" in done.err) == (2, True)
    done = gridveil("verify", bundle / "release.json")
    assert (done.code, f"Name {bundle}." in done.err) == (2, True)


def test_a_place_without_a_bundle_is_refused(tmp_path):
    for place in (tmp_path / "nowhere", tmp_path / "nowhere.zip", tmp_path):
        done = gridveil("verify", place, "--json")
        assert done.code == 2
        assert str(place) in json.loads(done.out)["error"]


# --- altered, with checksums to match -------------------------------------------------------------


def test_a_bundle_that_does_not_say_its_load_damping_is_loaded(bundle):
    """As those of an earlier gridveil."""
    document = json.loads((bundle / "release.json").read_text(encoding="utf-8"))
    assert document["model"].pop("load_damping") == 0
    (bundle / "release.json").write_text(
        json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    seal(bundle)
    verify(bundle)
    assert load(bundle).load_damping is None


def test_a_schema_from_the_future_says_so(bundle):
    edit_document(bundle, "schema_version", value=2)
    with pytest.raises(
        BundleError,
        match=r"its schema is version 2, and this gridveil knows up to 1\..*Upgrade gridveil",
    ):
        verify(bundle)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["surprise"], 1),
        (["guarantee", "surprise"], 1),
        (["schema_version"], 0),
        (["schema_version"], "1"),
        (["kind"], "something else"),
        (["demo"], "no"),
        (["guarantee", "epsilon"], 0.5),
        (["guarantee", "epsilon"], "-1/2"),
        (["guarantee", "epsilon"], "1/0"),
        (["guarantee", "adjacency"], "none"),
        (["guarantee", "groups", "k", "scale"], -2.0),
        (["guarantee", "groups"], {}),
        (["model", "omega_b"], "377"),
        (["model", "omega_b"], 0),
        (["model", "machines"], ["G1", "G2"]),
        (["bounds", "k"], [100, 1]),
        (["bounds", "k"], None),
        (["reference", "event"], "boom"),
        (["reference", "event"], "load:G9=1"),
        (["reference", "dt_s"], 99.0),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, list) else None,
)
def test_a_document_of_another_shape_is_refused(bundle, keys, value):
    edit_document(bundle, *keys, value=value)
    with pytest.raises(BundleError, match=r"Do not use it"):
        verify(bundle)


def test_a_demo_does_not_become_real_by_its_flag(demo, tmp_path):
    demo.save(tmp_path / "bundle")
    edit_document(tmp_path / "bundle", "demo", value=False)
    with pytest.raises(BundleError, match="demo"):
        verify(tmp_path / "bundle")


@pytest.mark.parametrize(
    "text", ["", "junk", "[1, 2]", "{}", '{"schema_version": 1}', '{"schema_version": NaN}']
)
def test_another_document_is_refused(bundle, text):
    (bundle / "release.json").write_text(text)
    seal(bundle)
    with pytest.raises(BundleError, match=r"release\.json"):
        verify(bundle)


@pytest.mark.parametrize("name", NAMES[2:])
def test_a_file_that_was_never_listed_is_missed(bundle, name):
    (bundle / name).unlink()
    seal(bundle)
    with pytest.raises(BundleError, match=re.escape(name)):
        verify(bundle)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("-", "", 1),
        lambda text: re.sub(r"-\d[^,\n]*", "nan", text),
        lambda _: "é",
    ],
)
def test_a_reference_that_the_model_does_not_give_is_refused(bundle, change):
    path = bundle / "reference.csv"
    path.write_text(change(path.read_text()), encoding="latin-1")
    seal(bundle)
    with pytest.raises(BundleError, match="reference"):
        verify(bundle)


ALTER_THE_ARRAYS = """
import hashlib, sys
from pathlib import Path
from gridveil.foundation.archive import canonical_zip
from gridveil.publication.bundle import verify
from gridveil.foundation.errors import BundleError
from gridveil.privacy.allocation import ITEMS

bundle, altered = map(Path, sys.argv[1:])
files = {path.name: path.read_bytes() for path in sorted(bundle.iterdir())}
del files["SHA256SUMS"]
good, refused = files["model.mat"], 0
for position in range(116, len(good), 3):
    files["model.mat"] = good[:position] + bytes([good[position] ^ 0xFF]) + good[position + 1 :]
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\\n" for name, data in files.items())
    altered.write_bytes(canonical_zip(files | {"SHA256SUMS": sums.encode()}))
    try:
        verify(altered)
    except BundleError:
        refused += 1
print(refused, len(range(116, len(good), 3)))
"""


def test_altered_arrays_are_refused_without_a_crash(bundle):
    """In a process of its own: a reader of MAT-files may die of such bytes."""
    command = [
        sys.executable,
        "-W",
        "error",
        "-c",
        ALTER_THE_ARRAYS,
        bundle,
        bundle.parent / "altered.zip",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    refused, tried = map(int, done.stdout.split())
    assert refused > tried / 2  # what is left are last digits that no trajectory shows


# --- whole or not at all --------------------------------------------------------------------------


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fails_at(call, number):
    """A function that works until its n-th call, when the disk is full."""
    calls = iter(range(1, number))
    return lambda *args, **options: (
        full_disk() if next(calls, None) is None else call(*args, **options)
    )


@pytest.mark.parametrize(
    ("name", "function", "number"),
    [("bundle", "fsync", n) for n in range(1, 6)]
    + [
        ("bundle", "rename", 1),
        ("bundle", "mkdir", 2),
        ("bundle", "mkdir", 3),
        ("bundle.zip", "fsync", 1),
        ("bundle.zip", "link", 1),
    ],
)
def test_a_full_disk_leaves_nothing_behind(real, tmp_path, monkeypatch, name, function, number):
    monkeypatch.setattr(os, function, fails_at(getattr(os, function), number))
    with pytest.raises(
        GridveilError, match=r"No space left on device.*No bundle was left.*stays spent.*--out"
    ) as refusal:
        real.save(tmp_path / name)
    assert refusal.value.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_during_a_release_is_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_LEDGER", str(tmp_path / "data" / "ledger"))
    monkeypatch.setattr(archive, "write_synced", full_disk)
    done = gridveil("release", "star5", "--epsilon=1/2", "--out", tmp_path / "out")
    assert (done.code, done.out) == (2, "")
    assert f"could not be written to {tmp_path / 'out'} (No space left on device)" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_link_to_nowhere_on_the_way_is_found_before_anything_is_charged(tmp_path, monkeypatch):
    """No folder can be made where the link lies, and none was there to be looked at."""
    monkeypatch.setenv("GRIDVEIL_LEDGER", str(tmp_path / "ledger"))
    (tmp_path / "gone").symlink_to("nowhere")
    for place in ("gone/out", "gone/deep/out.zip"):
        done = gridveil("release", "star5", "--epsilon=1/2", "--out", tmp_path / place)
        assert (done.code, "gone is not a folder that this user may write to" in done.err) == (
            2,
            True,
        ), done.err
    assert charges(tmp_path / "ledger") == []


@pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
def test_nothing_is_overwritten(real, tmp_path, name):
    real.save(tmp_path / name)
    before = files_under(tmp_path)
    with pytest.raises(OutputExists, match="exists already"):
        real.save(tmp_path / name)
    assert files_under(tmp_path) == before
    shutil.move(tmp_path / name, tmp_path / "moved")
    (tmp_path / name).symlink_to("nowhere")
    with pytest.raises(OutputExists, match="exists already"):
        real.save(tmp_path / name)


@pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
@pytest.mark.parametrize("taken", ["folder", "file"])
def test_the_writer_replaces_nothing_that_appeared_after_its_place_was_checked(
    real, tmp_path, name, taken
):
    if taken == "folder":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_text("another's")
    before = files_under(tmp_path)
    with pytest.raises(GridveilError, match=r"exists.*stays spent"):
        write(real, tmp_path / name)
    assert files_under(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_bundle_can_be_read_by_others(real, tmp_path):
    for name in ("bundle", "bundle.zip"):
        real.save(tmp_path / name)
    umask = os.umask(0)
    os.umask(umask)
    modes = {
        path.stat().st_mode & 0o777
        for path in (tmp_path / "bundle", *tmp_path.glob("bundle/*"), tmp_path / "bundle.zip")
    }
    assert modes == {0o777 & ~umask, 0o666 & ~umask}


def test_the_reference_is_the_models_own_answer(bundle, real):
    stored = np.loadtxt(
        io.StringIO((bundle / "reference.csv").read_text()), delimiter=",", skiprows=1
    )
    again = real.simulate("load:G1=+0.1", horizon_s=30, dt_s=0.1)
    assert np.array_equal(stored, np.column_stack([again.time_s, again.omega]))
