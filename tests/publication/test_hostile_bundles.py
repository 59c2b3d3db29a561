"""Hostile bundles: none verifies wrongly, none costs more than a moment, and each is refused in one
line.
"""

import json
import os
import random
import resource
import stat
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from cli_helpers import SCRIPT, charges, gridveil, make_release, write_grid
from gridveil import load, verify
from gridveil.foundation.archive import SIGNATURE, SUMS, canonical_zip, checksums
from gridveil.foundation.errors import BundleError, OptionError
from gridveil.grid.parameters import Bounds, Range
from gridveil.privacy.provenance import Provenance
from gridveil.publication.schema import ReleaseDocument
from hostile_bundles import (
    CERTIFICATE,
    FORGER,
    LIMIT_MB,
    LIMIT_S,
    NOTHING_LEARNT,
    RELEASE,
    SLACK,
    as_json,
    attempt,
    bases,
    forged,
    overlapping_zip,
    reworded,
    sealed,
)


@pytest.fixture(scope="module")
def all_bases():
    return bases()


@pytest.fixture(scope="module")
def real(all_bases):
    return next(base for base in all_bases if base.name == "real")


@pytest.fixture(scope="module")
def signed(all_bases):
    return next(base for base in all_bases if base.name == "signed")


def pack(tmp_path, files, name="bundle.zip"):
    path = tmp_path / name
    path.write_bytes(canonical_zip(files))
    return path


def changed(base, change):
    """Change every document alike, write the rest anew, and seal it."""
    documents = {name: base.document(name) for name in (RELEASE, CERTIFICATE) if name in base.files}
    for document in documents.values():
        change(document)
    return sealed(
        base,
        reworded(base.files | {name: as_json(document) for name, document in documents.items()}),
    )


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (SLACK * LIMIT_MB * 2**20,) * 2)


def in_a_child(*arguments, cwd):
    """Run the command under the limits: exit code, what it printed, processor time [s] and memory
    [MB].
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(
            [SCRIPT, *map(str, arguments)], cwd=cwd, stdout=out, stderr=err, preexec_fn=limited
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return child.returncode, *texts, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3


def check_cost(spent_s, peak_mb, told):
    assert spent_s < SLACK * LIMIT_S, told
    # RLIMIT_AS is what limits; what a child is said to have had at its peak is never less than what
    # its parent has.
    assert peak_mb < max(LIMIT_MB, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3 + 1), (
        told
    )


def refused_at_once(tmp_path, bundle, *, command=("verify",)):
    code, out, err, spent_s, peak_mb = in_a_child(command[0], bundle, *command[1:], cwd=tmp_path)
    assert (code, out, err.count("\n")) == (1, "", 1), err
    print(f"{spent_s:.2f} s, {peak_mb:.0f} MB: {err}")
    check_cost(spent_s, peak_mb, err)
    return err


# --- 10 000 of them -------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_forged_bundles_are_refused_for_what_was_forged(all_bases, tmp_path):
    outcomes = []
    for number in range(400):
        base, kind, files, data = forged(random.Random(f"fast {number}"), all_bases)
        outcome, wrong = attempt(base, files, data, tmp_path / "forged.zip")
        assert wrong is None, (number, base.name, kind, outcome, wrong)
        outcomes.append(outcome)
    assert outcomes.count("refused") > 300


@pytest.mark.slow
def test_of_10000_forged_bundles_none_verifies_wrongly(tmp_path):
    call = [
        sys.executable,
        str(Path(__file__).parents[1].joinpath("hostile_bundles.py")),
        "10000",
        "7",
    ]
    done = subprocess.run(call, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["failures"] == []
    assert sum(found["outcomes"].values()) == 10_000
    assert found["outcomes"]["refused"] > 9000
    assert min(found["kinds"].values()) > 300
    assert found["slowest_s"] < LIMIT_S
    assert found["peak_mb"] < LIMIT_MB


COMMANDS = (
    ("verify",),
    ("verify", "--json"),
    ("simulate", "--event=load:G1=+0.1", "--json"),
    ("export", "--to=csv", "--out=exported", "--json"),
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_200_of_them_go_through_the_command(all_bases, tmp_path):
    path, codes, costs = tmp_path / "bundle.zip", [], []
    for number in range(200):
        base, kind, files, data = forged(random.Random(f"7 {number}"), all_bases)
        outcome, _ = attempt(base, files, data, path)
        path.write_bytes(canonical_zip(files) if data is None else data)
        command, *options = COMMANDS[number % len(COMMANDS)]
        code, out, err, spent_s, peak_mb = in_a_child(command, path, *options, cwd=tmp_path)
        told = (number, base.name, kind, code, err)
        assert code == (1 if outcome == "refused" else 0) or (command != "verify" and code == 0), (
            told
        )
        assert code == 0 or (err or out).count("\n") == 1, told
        check_cost(spent_s, peak_mb, told)
        codes.append(code)
        costs.append((spent_s, peak_mb))
        for written in tmp_path.glob("exported/*"):
            written.unlink()
        if (tmp_path / "exported").exists():
            (tmp_path / "exported").rmdir()
    print(
        f"{codes.count(1)} refused; at most {max(costs)[0]:.2f} s and "
        f"{max(peak for _, peak in costs):.0f} MB"
    )
    assert codes.count(1) > 150


# --- what a certificate says ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["real", "signed"])
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda part: part.update(claim=NOTHING_LEARNT), "claim is not what gridveil states"),
        (lambda part: part.update(not_protected=[]), "not_protected is not what gridveil states"),
        (
            lambda part: [part["groups"][name].update(scale=1e-9) for name in "kmd"],
            "costs more than the ε stated",
        ),
        (
            lambda part: part["groups"]["k"].update(scale=part["groups"]["k"]["scale"] * 1.01),
            "another scale than",
        ),
        (lambda part: part["groups"]["m"].update(alpha="2"), "costs more than the ε stated"),
        (lambda part: part["groups"]["m"].update(epsilon="1/8"), "costs more than the ε stated"),
        (lambda part: part.update(mechanism="none at all"), "mechanism"),
        (lambda part: part.update(operating_point=NOTHING_LEARNT), "operating point"),
    ],
    ids=[
        "the claim",
        "what is not protected",
        "no noise",
        "more noise",
        "alpha",
        "epsilon",
        "mechanism",
        "operating point",
    ],
)
def test_a_promise_that_the_facts_do_not_give_is_refused_whoever_signed_it(
    request, tmp_path, kind, change, told
):
    base = request.getfixturevalue(kind)
    files = changed(base, lambda document: change(document.get("guarantee", document)))
    with pytest.raises(BundleError, match=told):
        verify(pack(tmp_path, files))
    with pytest.raises(BundleError, match=told):
        load(tmp_path / "bundle.zip")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda c: c.update(selection="Choose as you like."),
            "selection is not what gridveil states",
        ),
        (
            lambda c: c.update(neighbours="nothing differs"),
            "neighbours is not what gridveil states",
        ),
        (
            lambda c: c["public_inputs"].update(loads="secret"),
            "public_inputs is not what gridveil states",
        ),
        (lambda c: c.update(lineage_spent="1/100"), "contradict each other"),
        (lambda c: c.update(lineage_budget="1/100"), "contradict each other"),
        (lambda c: c["software"].update(opendp="0.0.1"), "two versions of OpenDP"),
        (
            lambda c: c["ledger_head"].update(count=c["ledger_head"]["count"] + 1),
            "does not bear its signature",
        ),
        (lambda c: c.update(ledger_entry=10**6), "older than the entry"),
        (
            lambda c: c["groups"]["k"].update(scale=1e-9),
            r"groups\.k\.scale is not what gridveil states",
        ),
    ],
)
def test_a_certificate_that_says_anything_else_is_refused(real, tmp_path, change, told):
    certificate = real.document(CERTIFICATE)
    change(certificate)
    files = sealed(real, reworded(real.files | {CERTIFICATE: as_json(certificate)}))
    with pytest.raises(BundleError, match=told):
        verify(pack(tmp_path, files))


@pytest.mark.parametrize(
    ("keys", "value", "told"),
    [
        (["model", "equations"], ["omega = 0"], r"model\.equations"),
        (["model", "units", "m"], "kg", r"model\.units"),
        (["model", "sign_convention"], NOTHING_LEARNT, r"model\.sign_convention"),
        (["guarantee", "in_words"], NOTHING_LEARNT, r"guarantee\.in_words"),
        (["valid_for"], "everything", "valid_for"),
        (["licence"], "yours", "licence"),
        (["clipped", "m"], 4, "clipped counts more"),
        (
            ["public_inputs", "allocation"],
            "items (k: nothing), by chance",
            "does not say what was drawn",
        ),
    ],
)
def test_a_document_that_states_anything_else_is_refused(real, tmp_path, keys, value, told):
    document = real.document(RELEASE)
    place = document
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    files = sealed(real, reworded(real.files | {RELEASE: as_json(document)}))
    with pytest.raises(BundleError, match=told):
        verify(pack(tmp_path, files))


def test_another_readme_is_refused(real, tmp_path):
    with pytest.raises(BundleError, match=r"README\.md is not what gridveil writes"):
        verify(pack(tmp_path, sealed(real, real.files | {"README.md": NOTHING_LEARNT.encode()})))


def test_a_second_entry_of_a_name_in_a_document_is_refused(real, tmp_path):
    twice = real.files[RELEASE].replace(b'"demo": false', b'"demo": true,\n  "demo": false')
    with pytest.raises(BundleError, match=r"release\.json is not written as gridveil writes it"):
        verify(pack(tmp_path, sealed(real, real.files | {RELEASE: twice})))


# --- repacked -------------------------------------------------------------------------------------


def rezip(
    path, files, *, method=zipfile.ZIP_DEFLATED, folder="", extras=(), attributes=0o644 << 16
):
    with zipfile.ZipFile(path, "w") as archive:
        if folder:
            archive.writestr(zipfile.ZipInfo(folder), b"")
        for name in sorted(files, reverse=True):
            entry = zipfile.ZipInfo(folder + name, (2026, 5, 24, 1, 2, 4))
            entry.compress_type, entry.external_attr = method, attributes
            archive.writestr(entry, files[name])
        for name in extras:
            archive.writestr(name, b"Mac")
    return path


@pytest.mark.parametrize(
    "options",
    [
        {"method": zipfile.ZIP_STORED},
        {},
        {"folder": "my bundle/"},
        {"folder": "x/", "extras": ["__MACOSX/x/._README.md", "x/.DS_Store"]},
        {"folder": "my bundle\\"},
    ],
    ids=["with times", "compressed", "in a folder", "by macOS", "by Windows"],
)
def test_a_repacked_bundle_verifies_and_is_said_to_be_repacked(signed, tmp_path, options):
    path = rezip(tmp_path / "mailed.zip", signed.files, **options)
    report = verify(path)
    extras = len(options.get("extras", ()))
    assert (report.repacked, report.ignored) == (True, extras)
    assert set(report.files) == set(signed.files)
    assert report.signed_by == signed.document(CERTIFICATE)["signed_by"]
    assert report.digest == verify(pack(tmp_path, signed.files)).digest
    assert not verify(tmp_path / "bundle.zip").repacked
    done = gridveil("verify", path)
    assert (
        "Repacked: another program made this zip; the files in it are the bundle's, bit by bit."
        in done.out
    )
    assert ("2 file(s) of its own" in done.out) == bool(extras)
    assert json.loads(gridveil("verify", path, "--json").out)["repacked"] is True
    assert "Repacked" not in gridveil("verify", tmp_path / "bundle.zip").out


def test_a_zip_made_on_the_fly_verifies(signed, tmp_path):
    """With sizes behind the data, as programs write that cannot go back."""

    class Pipe:
        def __init__(self, file):
            self.write, self.flush = file.write, file.flush

    with (tmp_path / "stream.zip").open("wb") as file:
        rezip(Pipe(file), signed.files)
    assert verify(tmp_path / "stream.zip").repacked


@pytest.mark.parametrize(
    "options",
    [
        {"folder": "../"},
        {"folder": "/"},
        {"folder": "a/b/"},
        {"extras": ["a/b"]},
        {"extras": ["README.md"]},
        {"extras": ["note.txt"]},
        {"attributes": (stat.S_IFLNK | 0o777) << 16},
        {"method": zipfile.ZIP_BZIP2},
        {"method": zipfile.ZIP_LZMA},
    ],
    ids=["..", "absolute", "deep", "two folders", "twice", "extra", "links", "bzip2", "lzma"],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_zip_with_anything_else_in_it_is_refused(real, tmp_path, options):
    with pytest.raises(BundleError):
        verify(rezip(tmp_path / "bundle.zip", real.files, **options))


# --- costs no more than a moment ------------------------------------------------------------------


def test_entries_that_overlap_are_refused_at_once(real, tmp_path):
    path = tmp_path / "bundle.zip"
    path.write_bytes(overlapping_zip(real.files, copies=60, size=2**25))
    assert "overlap" in refused_at_once(tmp_path, path)
    path.write_bytes(overlapping_zip(real.files, copies=60_000, size=2**16))
    assert "too many files" in gridveil("verify", path).err


@pytest.mark.slow
@pytest.mark.parametrize("lies", [False, True])
def test_a_file_that_unpacks_to_far_more_is_refused_at_once(real, tmp_path, lies):
    path = rezip(
        tmp_path / "bundle.zip", real.files | {"model.mat": bytes(2**30 if not lies else 2**28)}
    )
    if lies:  # the directory and the header in front announce a few bytes only
        data = path.read_bytes().replace(struct.pack("<I", 2**28), struct.pack("<I", 100))
        path.write_bytes(data)
    refused_at_once(tmp_path, path)


@pytest.mark.parametrize(
    "change",
    [
        {"horizon_s": 1e6},
        {"dt_s": 3e-4},
        {"scheme": "trapezoidal"},
        {"event": "load:G1=+1"},
        {"buses": ["G1"]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_reference_that_gridveil_does_not_choose_is_refused_at_once(real, tmp_path, change):
    document = real.document(RELEASE)
    document["reference"] |= change
    files = sealed(real, reworded(real.files | {RELEASE: as_json(document)}))
    start = time.process_time()
    with pytest.raises(
        BundleError, match=rf"reference\.{next(iter(change))} is not what gridveil states"
    ):
        verify(pack(tmp_path, files))
    assert time.process_time() - start < SLACK * LIMIT_S


SPOILT = {
    "deep JSON": lambda base: {RELEASE: b'{"schema_version": ' + b"[" * 10**6},
    "a deep certificate": lambda base: {
        CERTIFICATE: b'{"signed_by": ' + b"[" * 10**5 + b"]" * 10**5 + b"}"
    },
    "many machines": lambda base: _document(
        base, "model", machines=[f"G{i}" for i in range(1, 200_001)]
    ),
    "many loaded buses": lambda base: _document(
        base, "model", loaded_buses=[f"L{i}" for i in range(1, 200_001)]
    ),
    "a long string": lambda base: _document(base, "model", sign_convention="x" * 4_000_000),
    "100 000 exports": lambda base: _document(
        base, exports=[{"format": "csv", "version": 1, "files": ["a"]} for _ in range(100_000)]
    ),
    "empty lists": lambda base: {
        RELEASE: b'{"schema_version": 1, "exports": [' + b"[]," * 1_300_000 + b"[]]}"
    },
    "names in the wrong place": lambda base: {
        RELEASE: b'{"schema_version": 1, "exports": [' + b'"G1",' * 800_000 + b'"G1"]}'
    },
    "a large document": lambda base: {RELEASE: b" " * 60_000_000},
    "large checksums": lambda base: {"README.md": b"x" * 50_000_000},
    "a large reference": lambda base: {"reference.csv": b"0," * 4_000_000},
    "a long model": lambda base: {"model.mat": base.files["model.mat"] + bytes(10**8)},
}


def _document(base, part=None, **change):
    document = base.document(RELEASE)
    (document[part] if part else document).update(change)
    return {RELEASE: as_json(document)}


@pytest.mark.slow
@pytest.mark.parametrize("name", SPOILT)
def test_sizes_beyond_measure_are_refused_at_once(real, tmp_path, name):
    refused_at_once(tmp_path, pack(tmp_path, sealed(real, real.files | SPOILT[name](real))))


@pytest.mark.slow
def test_a_list_of_checksums_without_end_is_refused_at_once(real, tmp_path):
    files = real.files | {SUMS: real.files[SUMS] * 50_000}
    assert "SHA256SUMS is larger" in refused_at_once(tmp_path, pack(tmp_path, files))


@pytest.mark.parametrize(
    "signed_by", ["0", "00", "zz" * 32, "00" * 33, "0" * 65, "00" * 100_000, 5, ["00" * 32]]
)
def test_an_odd_key_is_refused(signed, tmp_path, signed_by):
    certificate = signed.document(CERTIFICATE) | {"signed_by": signed_by}
    files = {name: data for name, data in signed.files.items() if name not in (SUMS, SIGNATURE)}
    files |= {CERTIFICATE: as_json(certificate)}
    files[SUMS] = checksums(files)
    done = gridveil("verify", pack(tmp_path, files | {SIGNATURE: FORGER.sign(files[SUMS])}))
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)


# --- models that nobody may run -------------------------------------------------------------------


def with_number(base, name, value):
    """Another first number in an array of the model, with checksums to match."""
    from gridveil.publication.bundle_files import arrays_in

    document = ReleaseDocument.read(base.files[RELEASE])
    arrays = arrays_in(base.files["model.mat"], document.model)
    old = np.ascontiguousarray(arrays[name].T).tobytes()
    data = base.files["model.mat"]
    start = data.index(old)
    return sealed(
        base,
        base.files | {"model.mat": data[:start] + struct.pack("<d", value) + data[start + 8 :]},
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("m", 5e-324),
        ("m", -1.0),
        ("m", 0.0),
        ("m", 1e308),
        ("m", np.nan),
        ("d", -1.0),
        ("d", np.inf),
        ("k_r", 1e308),
        ("k_r", -0.1),
        ("governor_rate", -1.0),
        ("governor_rate", 1e300),
        ("droop_gain", -5.0),
        ("droop_gain", np.nan),
        ("K_ac", -0.5),
        ("K_ac", 2.0),
        ("K_ac", 1e308),
        ("loads", 1.0),
    ],
)
def test_a_model_that_is_none_is_neither_verified_loaded_simulated_nor_exported(
    real, tmp_path, name, value
):
    path = pack(tmp_path, with_number(real, name, value))
    for arguments in (
        ["verify", path],
        ["simulate", path, "--event=load:G1=0.1"],
        ["export", path, "--to=csv", "--out", tmp_path / "out"],
    ):
        done = gridveil(*arguments)
        assert (done.code, done.out, done.err.count("\n")) == (1, "", 1), (arguments, done.err)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("base", "name", "value", "told"),
    [
        ("real", "m", 41.0, "m of its model lies outside its public bounds"),
        ("relative", "d", 0.5, "d of its model lies outside its public bounds"),
        ("per group", "m", 10.0, "m of its model is not a sum shared in equal parts"),
        ("sums", "d", 7.0, "m and d of its model are not sums shared by rating"),
        ("topology", "K_ac", 0.4, "it claims to hide the network|do not add up to 1"),
        (
            "real",
            "loads",
            struct.unpack("<d", b"hidden\xf8\x7f")[0],
            "loads of its model holds a number",
        ),
    ],
)
def test_a_model_that_contradicts_what_was_drawn_is_refused(
    all_bases, tmp_path, base, name, value, told
):
    """Were it not, a bundle could say that only a sum was drawn, and show every machine's own."""
    forged = with_number(next(one for one in all_bases if one.name == base), name, value)
    with pytest.raises(BundleError, match=told):
        load(pack(tmp_path, forged))


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("model", {"machines": ["G1", "G2", "x\n=HYPERLINK(1),"]}),
        ("model", {"machines": ["G1", "G3", "G2"]}),
        ("model", {"loaded_buses": ["L1", "\x1b[2J"]}),
        ("model", {"omega_b": 5e-324}),
        ("model", {"base_mva": 1e308}),
        (
            None,
            {
                "exports": [
                    {
                        "format": "x\nSigned by key 0, which you trust.",
                        "version": 1,
                        "files": ["andes.json"],
                    }
                ]
            },
        ),
        (None, {"exports": [{"format": "andes", "version": 1, "files": ["../../x"]}]}),
    ],
)
def test_names_that_gridveil_does_not_give_are_refused_in_one_line(real, tmp_path, part, change):
    done = gridveil(
        "verify", pack(tmp_path, sealed(real, real.files | _document(real, part, **change)))
    )
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "\x1b" not in done.err and "HYPERLINK" not in done.err and "you trust" not in done.err


# --- folders --------------------------------------------------------------------------------------


@pytest.fixture
def folder(real, tmp_path):
    (tmp_path / "bundle").mkdir()
    for name, data in real.files.items():
        (tmp_path / "bundle" / name).write_bytes(data)
    return tmp_path / "bundle"


def sparse(path, size):
    with path.open("wb") as file:
        file.truncate(size)


@pytest.mark.slow
@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: [(folder / f"x{number}").touch() for number in range(2000)],
        lambda folder: os.mkfifo(folder / "pipe"),
        lambda folder: (folder / "zero").symlink_to("/dev/zero"),
        lambda folder: [
            (folder / "model.mat").unlink(),
            (folder / "model.mat").symlink_to("/dev/zero"),
        ],
        lambda folder: sparse(folder / "README.md", 2**33),
        lambda folder: sparse(folder / "model.mat", 2**40),
        lambda folder: sparse(folder / "SHA256SUMS", 2**33),
    ],
    ids=[
        "2000 files",
        "pipe",
        "link",
        "link for a file",
        "a large text",
        "a large model",
        "large checksums",
    ],
)
def test_a_hostile_folder_is_refused_at_once(folder, tmp_path, spoil):
    spoil(folder)
    refused_at_once(tmp_path, folder)


# --- nothing is written that could not be read again ----------------------------------------------


@pytest.mark.parametrize(
    "words", ["two\nlines", "\x1b[2J", "x" * 1001, "\u202eright to left", "half \ud800"]
)
def test_words_that_no_bundle_carries_are_refused_before_anything_is_drawn(tmp_path, words):
    with pytest.raises(OptionError, match=r"cannot be written into a bundle.*Nothing was drawn"):
        Bounds(origin=words)
    with pytest.raises(OptionError, match=r"cannot be written into a bundle.*Nothing was drawn"):
        Provenance("measured", words, "2016-01-06", "https://example.org", "the operator")
    if "\ud800" not in words:
        done = gridveil(
            "release",
            write_grid(tmp_path),
            "--epsilon=1/2",
            "--bounds-origin",
            words,
            "--ledger",
            tmp_path / "l",
        )
        assert done.code == 2
        assert charges(tmp_path / "l") == []


def test_bounds_beyond_what_a_bundle_may_hold_are_refused_before_anything_is_drawn(tmp_path):
    options = ["--ledger", tmp_path / "ledger", "--out", tmp_path / "out"]
    done = gridveil("release", write_grid(tmp_path), "--epsilon=1/2", "--bounds=k=1:1e12", *options)
    assert (done.code, "the upper bound of k" in done.err) == (2, True)
    assert charges(tmp_path / "ledger") == []
    assert Bounds({"k": Range(1, 1e12)})["k"].upper == 1e12  # which is no mistake in itself


def test_a_release_at_the_ends_of_what_may_be_declared_is_loaded_again(tmp_path):
    made = make_release(
        tmp_path,
        epsilon=Fraction(1, 10**9),
        publish_loads=True,
        load_damping=1e6,
        governor_rate=1e9,
    )
    made.save(tmp_path / "out")
    assert verify(tmp_path / "out").machines == 3
