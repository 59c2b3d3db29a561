"""Error bars in bundles: written, read, verified, and refused where they were forged."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from gridveil.foundation.archive import SUMS, checksums
from gridveil.foundation.errors import BundleError
from gridveil.foundation.shown import json_file
from gridveil.grid.parameters import Bounds
from gridveil.privacy.adjacency import Adjacency
from gridveil.publication.bundle import ENSEMBLE, contents, load, verify, verify_files
from gridveil.publication.matfile import from_mat, to_mat
from gridveil.publication.unpack import LARGEST_OF
from gridveil.readers.cases import open_grid
from gridveil.vault.sampler import DemoSampler
from gridveil.workflow.publish import publish


@pytest.fixture(scope="module")
def release():
    return publish(
        open_grid("ieee30"),
        epsilon=Fraction(1),
        adjacency=Adjacency("one-asset"),
        bounds=Bounds(),
        ledger=None,
        sampler=DemoSampler(1),
    )


def resealed(files):
    files = {name: data for name, data in files.items() if name != SUMS}
    return files | {SUMS: checksums(files)}


def members(files):
    """The arrays of a bundle's ensemble, by name."""
    shapes = {"k_r": (49, 15), "m": (49, 6), "d": (49, 6), "K_ac": (49, 108), "offset": (49, 24)}
    found = from_mat(files[ENSEMBLE], shapes, {}, "f4")
    return {name: values.copy() for name, values in found.items()}


def test_an_ensemble_is_loaded_as_it_was_saved(release, tmp_path):
    release.save(tmp_path / "bundle")
    loaded = load(tmp_path / "bundle")
    for name, values in release.ensemble.arrays.items():
        assert (loaded.ensemble.arrays[name] == values).all()
    assert loaded.ensemble.counts == release.ensemble.counts
    bands = [one.simulate("load:G1=+0.1").band for one in (release, loaded)]
    assert (bands[0].lower == bands[1].lower).all()
    assert (tmp_path / "bundle" / ENSEMBLE).stat().st_size < 2**20


def test_other_tools_read_the_members(release):
    from io import BytesIO

    from scipy.io import loadmat

    found = loadmat(BytesIO(contents(release)[ENSEMBLE]))
    assert found["m"].dtype == np.float32
    np.testing.assert_array_equal(found["m"], release.ensemble.swing["m"])


def test_a_release_without_an_ensemble_has_no_file_and_no_word_of_it(release, tmp_path):
    plain = replace(release, ensemble=None)
    plain.save(tmp_path / "bundle")
    assert not (tmp_path / "bundle" / ENSEMBLE).exists()
    assert "ensemble" not in json.loads((tmp_path / "bundle" / "release.json").read_text())
    verify(tmp_path / "bundle")
    assert load(tmp_path / "bundle").simulate("load:G1=+0.1").band is None


def changed(name, value):
    def change(files):
        arrays = members(files)
        arrays[name].flat[3] = value
        return files | {ENSEMBLE: to_mat(arrays)}

    return change


def without(files):
    return {name: data for name, data in files.items() if name != ENSEMBLE}


def other_members(files):
    document = json.loads(files["release.json"])
    document["ensemble"]["members"] = 48
    return files | {"release.json": json_file(document)}


def other_bands(files):
    document = json.loads(files["release.json"])
    document["ensemble"]["nadir_hz"][0] *= 1.01
    return files | {"release.json": json_file(document)}


def unannounced(files):
    document = json.loads(files["release.json"])
    del document["ensemble"]
    return files | {"release.json": json_file(document)}


FORGED = {
    "NaN": changed("m", np.nan),
    "infinite": changed("k_r", np.inf),
    "a negative inertia": changed("m", -1.0),
    "a negative damping": changed("d", -1.0),
    "shares above 1": changed("K_ac", 3.0),
    "a model error of 100": changed("offset", 100.0),
    "another member": changed("m", 35.0),
    "other bands": other_bands,
    "other members": other_members,
    "no file": without,
    "no word of it": unannounced,
    "cut off": lambda files: files | {ENSEMBLE: files[ENSEMBLE][:-8]},
    "longer": lambda files: files | {ENSEMBLE: files[ENSEMBLE] + bytes(8)},
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_a_forged_ensemble_is_refused(release, forge):
    sound = contents(release)
    verify_files(Path("sound"), sound)
    with pytest.raises(BundleError):
        verify_files(Path("forged"), resealed(forge(sound)))


def test_an_ensemble_file_beyond_any_that_is_written_is_not_read():
    assert LARGEST_OF[ENSEMBLE] <= 2**24
