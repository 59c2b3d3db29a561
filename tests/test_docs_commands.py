"""Every line for a terminal on every page is run, here or in a test that is named, or excused with
a reason.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from test_docs import PAGES, ROOT, blocks, run

PROGRAMS = (
    "gridveil",
    "andes",
    "cd",
    "make",
    "octave-cli",
    "openssl",
    "pip",
    "python",
    "sha256sum",
)
# Pages whose lines a test of its own runs, with what it checks beside.
ELSEWHERE = {
    "README.md": "test_the_readme_works_from_top_to_bottom",
    "trajectories.md": "test_the_page_on_trajectories_leads_from_files_to_a_replay",
    "leakage.md": "test_the_commands_on_leakage_work_with_the_record_that_it_names",
    "plan.md": "test_the_page_on_plans_shows_what_the_command_prints",
    # These need a cluster, or an environment of their own.
    "ensemble.md": "tests/workflow/test_ensemble.py",
    "air-gapped.md": "tests/test_wheelhouse.py",
}
EXCUSED = {
    "make": ".ci/run does",
    "pip install": "the tests' own environment was made so",
    "gridveil audit --full": "twenty minutes; --thorough goes the same way",
    "python benchmarks/": "they take long, other packages or a GPU, and print no promise",
    "openssl pkeyutl -verify": "run by tests/publication/test_signing.py",
}


def terminal_lines(page):
    """Lines for a terminal: in blocks without a language, and outside of them where the line is for
    another program than ours. (`gridveil …` in running text names a command, often with
    placeholders; test_docs sees that its options exist.)
    """
    text = page.read_text(encoding="utf-8")
    fence = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
    lines = [
        re.sub(r"\s+# .*", "", line.strip())
        for _, language, block in fence.findall(text)
        if language in ("", "sh", "console")
        for line in block.splitlines()
    ]
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    lines += [span for span in spans if span.startswith(("andes run ", "octave-cli ", "python -"))]
    return [line for line in lines if line.split(" ")[0] in PROGRAMS]


def excused(line):
    return any(line.startswith(words) for words in EXCUSED)


RUN = {
    str(page.relative_to(ROOT)): lines
    for page in PAGES
    if page.name not in ELSEWHERE
    and (lines := [line for line in terminal_lines(page) if not excused(line)])
}


def test_what_is_run_elsewhere_or_excused_is_still_there():
    told = (ROOT / "tests" / "test_docs.py").read_text(encoding="utf-8")
    for page in PAGES:
        name = ELSEWHERE.get(page.name, "tests")
        assert f"def {name}(" in told or (ROOT / name).exists(), name
    lines = [line for page in PAGES for line in terminal_lines(page)]
    for words in EXCUSED:
        assert any(line.startswith(words) for line in lines), words


# --- what a page takes for granted ----------------------------------------------------------------


def ieee30(*names):
    case = ROOT / "src/gridveil/readers/cases/ieee30.m"
    dynamics = blocks(ROOT / "docs" / "grids.md", "toml")[0]
    for name in names:
        shutil.copy(case, name)
        Path(name).with_suffix(".toml").write_text(dynamics, encoding="utf-8")


def andes_file(case, name):
    import andes

    shutil.copy(andes.get_case(case), name)


def a_release(*options, out="release"):
    done = run(f"gridveil release star5 --epsilon 1/2 --out {out} {' '.join(options)}")
    assert done.returncode == 0, done.stderr


def for_aggregates():
    andes_file("kundur/kundur.raw", "mine.raw")
    andes_file("kundur/kundur_gencls.dyr", "mine.dyr")


def for_export():
    a_release()
    for form in ("andes", "psse", "matpower", "mat", "csv", "statespace", "modelica", "matrices"):
        assert run(f"gridveil export release --to {form} --out {form}").returncode == 0
        for file in Path(form).iterdir():
            shutil.copy(file, file.name)
    assert run("gridveil export release --to fmu --out fmu").returncode == 0
    shutil.copy("fmu/gridveil_release.fmu", ".")


def for_formats():
    import pypowsybl.network as pn

    andes_file("kundur/kundur.raw", "north.raw")
    andes_file("kundur/kundur_gencls.dyr", "north.dyr")
    andes_file("kundur/kundur_gencls.dyr", "summer.dyr")
    andes_file("kundur/kundur_full.xlsx", "my_case.xlsx")
    # the whole path: powsybl keeps the folder in which a process first used it
    pn.create_ieee14().save(str(Path("model.zip").absolute()), format="CGMES")
    Path("model.toml").write_text("[dynamics]\ninertia = 10.0\ndamping = 5.0\n", encoding="utf-8")


def for_keys():
    """The owner's place is another one than the recipient's."""
    assert run("gridveil keys new").returncode == 0
    a_release()
    shutil.copy(Path(os.environ["GRIDVEIL_HOME"], "keys", "keyring.json"), ".")
    os.environ["GRIDVEIL_HOME"] += "-of-the-page"


def for_ledger():
    ieee30("north.m")


def for_records():
    page = ROOT / "docs" / "trajectories.md"
    exec(compile(blocks(page, "python")[0], page.name, "exec"), {})


def for_verify():
    assert run("gridveil keys new").returncode == 0
    a_release()
    assert run("gridveil ledger budget star5 --epsilon 1").returncode == 0
    a_release(out="other")
    shutil.copy(Path(os.environ["GRIDVEIL_HOME"], "keys", "keyring.json"), ".")


BEFORE = {
    "docs/aggregates.md": for_aggregates,
    "docs/bundle.md": for_verify,
    "docs/error_bars.md": a_release,
    "docs/export.md": for_export,
    "docs/formats.md": for_formats,
    "docs/keys.md": for_keys,
    "docs/ledger.md": for_ledger,
    "docs/how-to/fit-a-record.md": for_records,
    "docs/how-to/other-tools.md": a_release,
    "docs/how-to/verify-a-bundle.md": for_verify,
}
# What a reader does between two lines.
AFTER = {
    ("docs/how-to/fit-a-record.md", "gridveil record init record.csv"): lambda: Path(
        "record.toml"
    ).write_text(blocks(ROOT / "docs" / "trajectories.md", "toml")[0], encoding="utf-8"),
    ("docs/ledger.md", "gridveil ledger verify"): lambda: shutil.copy(
        "release/certificate.json", "."
    ),
    ("docs/keys.md", "gridveil verify release --key keyring.json"): lambda: os.chdir("release"),
}
# Pages whose lines are choices of one reader: releases of one grid by each would exceed its budget.
CHOICES = {"docs/aggregates.md"}
# What stands for a word of the reader's.
WORDS = {"BUNDLE": "release", "OTHER": "other", "[KEY_ID]": "--yes"}


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN)
def test_every_line_for_a_terminal_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GRIDVEIL_WITNESS", str(tmp_path / "home" / "witness.sqlite"))
    monkeypatch.setenv("GRIDVEIL_PASSPHRASE", "a passphrase for tests")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    BEFORE.get(page, lambda: None)()
    for number, line in enumerate(RUN[page]):
        if line.startswith("gridveil release") and ("--out" not in line or "--out release" in line):
            shutil.rmtree("release", ignore_errors=True)
        if page in CHOICES:
            monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / f"home-{number}"))
        for word, meant in WORDS.items():
            line = line.replace(word, meant)
        done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        AFTER.get((page, line), lambda: None)()
