"""What a recipient does works where POSIX's modules and names, UTF-8 and \\n are not the rule, and
gives the same bytes; what an owner cannot do there is refused before anything is spent.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import like_windows
from cli_helpers import files_under, gridveil
from gridveil import load, run_demo, verify
from gridveil.publication.export import FORMATS
from measured_helpers import write_measured
from record_layouts import hz_at

LOADED = """
from pathlib import Path
import gridveil
release = gridveil.load("bundle.zip")
release.simulate("load:G1=+0.1").to_frame()
gridveil.run_demo("star5").release.save("demo.zip")
Path("digest.txt").write_text(gridveil.verify("bundle").digest, encoding="utf-8", newline="")
"""
USED = [
    ["gridveil", "verify", "bundle", "--key", "keyring.json"],
    ["gridveil", "verify", "bundle.zip", "--json"],
    ["gridveil", "simulate", "bundle", "--event", "load:G1=+0.1", "--csv", "step.csv"],
    ["gridveil", "simulate", "bundle", "--event", "load:G1=+0.1", "--plot", "step.png"],
    ["gridveil", "simulate", "bundle", "--replay", "--csv", "replay.csv"],
    *(["gridveil", "export", "bundle", "--to", name, "--out", f"in-{name}"] for name in FORMATS),
    ["gridveil", "demo", "star5", "--out", "demo"],
    ["python", LOADED],
]
REFUSED = {
    "release star5 --epsilon 1/2 --out real": "Nothing was drawn and nothing was spent",
    "keys new": "No key was made or changed",
    "studio": "Nothing was started",
}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A signed release with a record, as a folder and as a zip, and its owner's keyring."""
    folder = tmp_path_factory.mktemp("owner")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRIDVEIL_HOME", str(folder / "home"))
        patch.setenv("GRIDVEIL_WITNESS", str(folder / "witness.sqlite"))
        time = [n / 20 for n in range(401)]
        rows = [[hz_at(bus, t - 2) for bus in ("1", "4")] for t in time]
        record = write_measured(folder / "record", time, rows, offset="none", redistribute=True)
        release = f"release star5 --epsilon 1 --yes --out {folder / 'bundle'} --trajectory {record}"
        for words in ("keys new", release):
            done = gridveil(*words.split())
            assert done.code == 0, done.err
    return folder / "bundle", folder / "home" / "keys" / "keyring.json"


@pytest.fixture(scope="module")
def windows(bundle, tmp_path_factory):
    """A folder in which everything was run as on Windows: its place, exit codes and output."""
    from gridveil.foundation.archive import canonical_zip

    place, keyring = bundle
    folder = tmp_path_factory.mktemp("recipient")
    files = {path.name: path.read_bytes() for path in place.iterdir()}
    (folder / "bundle").mkdir()
    for name, data in files.items():
        (folder / "bundle" / name).write_bytes(data)
    (folder / "bundle.zip").write_bytes(canonical_zip(files))
    (folder / "keyring.json").write_bytes(keyring.read_bytes())
    commands = USED + [["gridveil", *words.split()] for words in REFUSED]
    command = [sys.executable, "-X", "warn_default_encoding", like_windows.__file__]
    # Text is in ASCII where nothing else is said, and screens have the signs of cp1252.
    plain = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    place = {"GRIDVEIL_HOME": str(folder / "home"), "PYTHONIOENCODING": "cp1252"}
    done = subprocess.run(
        [*command, "codes.json", json.dumps(commands)],
        cwd=folder,
        env=os.environ | plain | place,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode("cp1252")
    codes = json.loads((folder / "codes.json").read_bytes())
    return folder, codes, done.stdout.decode("cp1252"), done.stderr.decode("cp1252")


def test_what_a_recipient_runs_works_without_posix(windows):
    _, codes, _, err = windows
    assert codes[: len(USED)] == [0] * len(USED), err
    assert "internal error" not in err


def test_an_owner_is_told_what_does_not_work_there(windows):
    folder, codes, _, err = windows
    assert codes[len(USED) :] == [2] * len(REFUSED), err
    for outcome in REFUSED.values():
        assert outcome in err
    assert "WSL" in err
    assert not (folder / "real").exists()
    assert not (folder / "home").exists()


def test_signs_that_a_screen_lacks_are_spelt_and_json_is_whole(windows):
    _, _, out, _ = windows
    assert "real release, epsilon = 1, adjacency one-asset" in out
    assert "for alpha = 1" in out
    start = out.index("{\n")
    report, _ = json.JSONDecoder().raw_decode(out[start:])
    assert "α = 1" in report["noise"]["m"]


def test_what_is_written_there_has_the_same_bytes(windows, bundle, tmp_path):
    folder, *_ = windows
    place, _ = bundle
    assert (folder / "digest.txt").read_text(encoding="utf-8") == verify(place).digest
    run_demo("star5").release.save(tmp_path / "demo.zip")
    assert (folder / "demo.zip").read_bytes() == (tmp_path / "demo.zip").read_bytes()
    written = load(place).simulate("load:G1=+0.1").to_csv().encode()
    assert (folder / "step.csv").read_bytes() == written
    assert (folder / "replay.csv").read_bytes() == (place / "replay.csv").read_bytes()
    for name in FORMATS:
        assert gridveil("export", place, "--to", name, "--out", tmp_path / name).code == 0
        here, there = (files_under(where) for where in (tmp_path / name, folder / f"in-{name}"))
        assert list(here.values()) == list(there.values()), name
        assert [path.name for path in here] == [path.name for path in there]
    assert verify(folder / "bundle").digest == verify(folder / "bundle.zip").digest


def test_no_text_file_is_opened_without_an_encoding_or_a_line_end():
    """On Windows `write_text` ends lines with two signs; what is published is written as bytes."""
    source = Path(sys.modules["gridveil"].__file__).parent
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if ".write_text(" in path.read_text(encoding="utf-8")
    }
    assert found <= {"studio/jobs.py", "studio/serve.py"}  # for its own eyes
