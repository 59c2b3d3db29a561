"""Other tools' files inside a bundle: on request, covered by its checksums, and made again by
whoever verifies it.
"""

import hashlib
import json
import re
from dataclasses import replace

import pytest

from bundle_helpers import edit_document, seal
from cli_helpers import charges, files_under, gridveil, make_release, write_grid
from gridveil import load, verify
from gridveil.foundation.errors import BundleError, OptionError
from gridveil.publication.export import FORMATS, export

ALL = tuple(FORMATS)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    return make_release(tmp_path_factory.mktemp("real"))


@pytest.fixture
def bundle(real, tmp_path):
    real.save(tmp_path / "bundle", formats=ALL)
    return tmp_path / "bundle"


def exported(release):
    return {name: content for to in ALL for name, content in export(release, to).items()}


@pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
def test_a_bundle_holds_the_formats_that_were_asked_for(real, tmp_path, name):
    report = real.save(tmp_path / name, formats=ALL)
    assert report == verify(tmp_path / name)
    assert (report.exports, report.not_recomputed) == (ALL, ())
    assert exported(real).keys() <= set(report.files)
    assert exported(load(tmp_path / name)) == exported(real)


def test_the_files_in_a_bundle_are_those_of_the_command(real, bundle):
    assert {name: (bundle / name).read_bytes() for name in exported(real)} == exported(real)
    listed = (bundle / "SHA256SUMS").read_text()
    for name, content in exported(real).items():
        assert f"{hashlib.sha256(content).hexdigest()}  {name}\n" in listed


def test_without_formats_a_bundle_is_as_before(real, tmp_path):
    assert real.save(tmp_path / "bundle").exports == ()
    assert "other tools" not in (tmp_path / "bundle" / "README.md").read_text()


def test_the_readme_lists_files_and_lines(bundle, real):
    readme = (bundle / "README.md").read_text()
    for name in exported(real):
        assert f"`{name}`" in readme
    for one in FORMATS.values():
        assert f"\n{one.runs}\n" in readme


@pytest.mark.parametrize(
    "name",
    [
        *("andes.json", "psse.dyr", "gridveil_case.m", "release.mat", "weights.csv"),
        *("statespace.mat", "gridveil_release.mo", "gridveil_release.fmu", "matrix_D.csv"),
    ],
)
def test_an_export_of_another_model_is_refused(bundle, name):
    good = (bundle / name).read_bytes()
    (bundle / name).write_bytes(good + b" ")
    with pytest.raises(BundleError, match=re.escape(f"{name} was changed")):
        verify(bundle)
    seal(bundle)
    with pytest.raises(
        BundleError, match=rf"{re.escape(name)}.* is not what the model gives in the format"
    ):
        verify(bundle)


def test_an_announced_file_that_is_missing_is_named(bundle):
    (bundle / "psse.dyr").unlink()
    seal(bundle)
    with pytest.raises(BundleError, match=r"psse\.dyr is missing"):
        load(bundle)


def test_a_file_that_nothing_announces_is_named_though_it_is_listed(bundle):
    (bundle / "extra.txt").write_text("hello")
    seal(bundle)
    with pytest.raises(BundleError, match=r"extra\.txt is not announced in release\.json"):
        load(bundle)


def test_a_file_of_the_bundle_is_no_export(bundle):
    exports = json.loads((bundle / "release.json").read_text())["exports"]
    edit_document(
        bundle,
        "exports",
        value=[exports[0] | {"version": 9, "files": ["andes.json", "README.md"]}, *exports[1:]],
    )
    with pytest.raises(BundleError, match=r"README\.md is not a file of an export"):
        load(bundle)


def test_what_an_earlier_version_wrote_is_said_not_to_be_recomputed(bundle, monkeypatch):
    monkeypatch.setitem(
        FORMATS, "andes", replace(FORMATS["andes"], version=FORMATS["andes"].version + 1)
    )
    (bundle / "andes.json").write_text("{}")
    seal(bundle)
    assert verify(bundle).not_recomputed == ("andes",)
    done = gridveil("verify", bundle)
    assert done.code == 0
    others = ", ".join(name for name in ALL if name != "andes")
    assert f"Also for {others}: as this model gives them." in done.out
    assert (
        "Also for andes: by another version of gridveil, so that only the checksums vouch for it."
        in done.out
    )


def test_what_a_later_version_wrote_and_files_of_another_name_are_refused(bundle, monkeypatch):
    """An export could otherwise carry anything at all."""
    exports = json.loads((bundle / "release.json").read_text())["exports"]
    edit_document(
        bundle, "exports", value=[one | {"version": one["version"] + 1} for one in exports]
    )
    with pytest.raises(BundleError, match="Upgrade gridveil"):
        verify(bundle)
    monkeypatch.setitem(
        FORMATS, "andes", replace(FORMATS["andes"], version=FORMATS["andes"].version + 1)
    )
    (bundle / "andes.json").rename(bundle / "Setup.exe")
    edit_document(
        bundle,
        "exports",
        value=[
            one | {"files": ["Setup.exe"]} if one["format"] == "andes" else one for one in exports
        ],
    )
    with pytest.raises(
        BundleError,
        match=r"README\.md is not what gridveil writes|Setup\.exe is not what the model gives",
    ):
        verify(bundle)


def test_an_unknown_format_saves_nothing(real, tmp_path):
    with pytest.raises(OptionError, match="unknown"):
        real.save(tmp_path / "bundle", formats=["andes", "xlsx"])
    assert list(tmp_path.iterdir()) == []


def test_release_takes_formats_and_refuses_them_before_it_draws(tmp_path):
    grid, ledger = write_grid(tmp_path / "in"), tmp_path / "ledger.sqlite"
    given = ["--epsilon=1/2", "--ledger", ledger, "--out", tmp_path / "out"]
    done = gridveil("release", grid, *given, "--formats=andes,xlsx")
    assert (done.code, "'xlsx' is unknown" in done.err) == (2, True)
    assert charges(ledger) == []
    assert not (tmp_path / "out").exists()
    done = gridveil("release", grid, *given, "--formats=psse,csv", "--json")
    assert done.code == 0, done.err
    assert verify(tmp_path / "out").exports == ("psse", "csv")
    assert (tmp_path / "out" / "ports.csv") in files_under(tmp_path / "out")
