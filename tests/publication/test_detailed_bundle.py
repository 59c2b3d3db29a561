"""A bundle with detailed devices: what it shows in each form, what a recipient computes with it,
and what is refused.
"""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from bundle_helpers import edit_document, seal
from cli_helpers import as_json, gridveil, make_release
from detailed_releases import HALF, charged, demo
from gridveil import load, verify
from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.model import MATRICES, DetailedModel
from gridveil.dynamics.detailed.projection import RUNGS
from gridveil.dynamics.engine.lti import LTI
from gridveil.dynamics.models import ReducedModel
from gridveil.foundation.errors import BundleError, EventError, GridveilError
from gridveil.publication.bundle import contents
from gridveil.publication.detailed import NOT_MOVED, arrays_of, moved_words
from gridveil.publication.export import export
from gridveil.publication.matfile import to_mat

EXPORTS = ("andes", "psse", "mat", "statespace", "modelica", "fmu", "matrices")
FILES = (
    *("network.json", "network.raw", "network.dyr", "release.mat", "statespace.mat"),
    *("gridveil_release.mo", "gridveil_release.fmu", "matrix_A.csv"),
)
# Columns of devices that the linear model does not depend on: limits, and blocks and curves that
# these devices have not.
IN_NO_MATRIX = ("VMAX", "VMIN", "VRMAX", "VRMIN", "TC", "E1", "E2", "SE1", "SE2", "S12")


@pytest.fixture(scope="module", params=["reduced", "network"])
def release(request):
    return demo(form=request.param)


@pytest.fixture(scope="module")
def network():
    return demo(form="network")


@pytest.fixture(scope="module")
def sound(network, tmp_path_factory):
    path = tmp_path_factory.mktemp("network") / "bundle"
    network.save(path, formats=EXPORTS)
    return path


@pytest.fixture(scope="module")
def plain(network, tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "bundle"
    network.save(path)
    return path


@pytest.fixture
def bundle(sound, tmp_path):
    return shutil.copytree(sound, tmp_path / "bundle")


def refused(path, match=None):
    """A bundle is refused in plain words."""
    with pytest.raises(BundleError, match=match) as caught:
        verify(path)
    assert "Traceback" not in str(caught.value) and caught.value.remedy
    return str(caught.value)


def forge(path, **changes):
    """Put other arrays into model.mat, and make the checksums anew."""
    release = load(path)
    arrays = arrays_of(release.model, release.shown)
    assert changes.keys() <= arrays.keys()
    (path / "model.mat").write_bytes(to_mat(arrays | changes))
    seal(path)


def other(values, by=1.01):
    """An array with one number changed: its largest."""
    changed = np.array(values)
    place = np.unravel_index(np.abs(changed).argmax(), changed.shape)
    changed[place] = changed[place] * by or 0.01
    return changed


# --- what it shows --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
def test_a_bundle_is_read_back_as_it_was(release, tmp_path, name):
    report = release.save(tmp_path / name, formats=EXPORTS)
    assert verify(tmp_path / name) == report
    assert (report.exports, report.not_recomputed) == (EXPORTS, ())
    again = load(tmp_path / name)
    assert isinstance(again.model, DetailedModel)
    there, here = (arrays_of(each.model, each.shown) for each in (again, release))
    assert there.keys() == here.keys()
    for key, values in here.items():
        np.testing.assert_array_equal(there[key], values)
    assert again.guarantee == release.guarantee
    assert (again.model.states, again.model.ports) == (release.model.states, release.model.ports)
    assert again.shown.moved_words == release.shown.moved_words
    assert contents(again, formats=EXPORTS) == contents(release, formats=EXPORTS)


def test_the_network_form_shows_the_case_and_the_reduced_one_its_units(tmp_path):
    for form, buses in (("network", 10), ("reduced", 4)):
        demo(form=form).save(tmp_path / form)
        shown = json.loads((tmp_path / form / "release.json").read_text())["model"]["detailed"]
        assert (shown["case"]["form"], shown["case"]["buses"]) == (form, buses)
        assert shown["case"]["units"] == 4
    assert load(tmp_path / "reduced").shown.case.branches.ends.shape == (6, 2)  # each pair once


def test_both_forms_have_the_same_linear_model():
    one, whole = (demo(form=form).model for form in ("reduced", "network"))
    for name in MATRICES:
        np.testing.assert_array_equal(getattr(one, name), getattr(whole, name))


def test_the_whole_case_gives_the_linear_model(network):
    case = network.shown.case
    again = linearise(case, solve(case), case.loads.bus)
    np.testing.assert_allclose(again.A, network.model.A, rtol=1e-9, atol=1e-9)
    assert case.buses == tuple(f"B{n + 1}" for n in range(10))
    assert network.model.ports == ("G1", "G2", "G3", "G4", "L1", "L2")
    assert {state.split()[0] for state in network.model.states} == {"G1", "G2", "G3", "G4"}


def test_a_charged_bundle_has_a_certificate(tmp_path):
    charged(tmp_path).save(tmp_path / "bundle")
    assert not verify(tmp_path / "bundle").demo
    words = (tmp_path / "bundle/certificate.txt").read_text()
    assert "power flow is solved on the released network" in words
    assert "how loads depend on voltage" in words


def test_words_name_each_rung_that_was_gone():
    words = moved_words(dict.fromkeys(RUNGS, 0.0) | {"set points": 0.5, "voltage": 1.0})
    assert "voltage set points, raised: 0.5 of the way; x_machine, avr_gain" in words
    assert "load" not in words
    words = moved_words(dict.fromkeys(RUNGS, 0.0) | {"load": 0.1875})
    assert words.endswith("load and dispatch, lowered together: 0.188 of the way.")
    assert "Nothing was moved" in moved_words(dict.fromkeys(RUNGS, 0.0))


def test_a_release_that_was_moved_says_so(tmp_path):
    made = demo("andes:ieee39", seed=1, epsilon=HALF / 5)
    assert made.shown.moved > 0
    made.save(tmp_path / "bundle")
    verify(tmp_path / "bundle")
    assert made.shown.moved_words in (tmp_path / "bundle/README.md").read_text()
    for moved, words in (
        (0.0, made.shown.moved_words),
        (0.0, NOT_MOVED + " "),
        (made.shown.moved, NOT_MOVED),
        (made.shown.moved, made.shown.moved_words.replace(": 0.", ": 1.")),
        (made.shown.moved, f"{made.shown.moved_words} Nothing at all can be learnt."),
        (0.0, "Nothing at all can be learnt."),
    ):
        forged = replace(made, shown=replace(made.shown, moved=moved, moved_words=words))
        forged.save(tmp_path / "forged")
        refused(tmp_path / "forged", "moved")
        shutil.rmtree(tmp_path / "forged")


# --- what is computed with it ---------------------------------------------------------------------


def test_load_and_trip_are_simulated_from_the_bundle(plain, network):
    model = load(plain).model
    step = network.simulate("load:L1=+0.5", horizon_s=5.0)
    again = load(plain).simulate("load:L1=+0.5", horizon_s=5.0)
    np.testing.assert_array_equal(again.omega, step.omega)
    # by the matrices alone, with trapezoids of the same length
    drive = np.zeros((6, 1))
    drive[4] = 0.5
    expected = _by_trapezoids(model.lti(drive, np.arange(4)), 500, 0.01)
    np.testing.assert_allclose(step.omega[-1], expected, rtol=1e-3)
    assert step.omega.min() < -1e-4
    trip = load(plain).simulate("trip:G2@1s", horizon_s=5.0, buses=["G1", "G3"])
    before = trip.time_s < 1
    assert np.abs(trip.omega[before]).max() == 0
    # all that G2 gave is missing: far more than the step above
    assert trip.omega.min() < 4 * step.omega.min()


def _by_trapezoids(lti: LTI, steps, dt):
    left, right = (np.eye(lti.states) + sign * dt / 2 * lti.A for sign in (-1, 1))
    x = np.zeros(lti.states)
    for _ in range(steps):
        x = np.linalg.solve(left, right @ x + dt * lti.B[:, 0])
    return lti.C @ x + lti.D[:, 0]


def test_the_command_simulates_load_and_trip(plain):
    for event in ("load:L1=+50MW", "trip:G2", "uniform:+1%"):
        told = as_json(gridveil("simulate", plain, "--event", event, "--json", "--horizon=5"))
        system = told["system"]
        assert system["nadir_hz"] < system["settling_hz"] < 0 and system["initial_rocof_hz_s"] < 0
    done = gridveil("simulate", plain, "--event", "trip:L1")
    assert done.code == 2 and "Nothing was simulated" in done.err
    with pytest.raises(EventError):
        load(plain).simulate("trip:G9")


@pytest.mark.parametrize("to", EXPORTS)
def test_exports_of_a_loaded_bundle_are_the_ones_inside(sound, to):
    for name, data in export(load(sound), to).items():
        assert (sound / name).read_bytes() == data


@pytest.mark.parametrize("to", ["csv", "matpower"])
def test_a_format_without_words_for_it_is_refused(network, tmp_path, to):
    with pytest.raises(GridveilError, match=f"The format {to} has no words for a detailed model"):
        network.save(tmp_path / "bundle", formats=[to])
    assert not (tmp_path / "bundle").exists()


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_a_changed_export_is_refused(bundle, name):
    data = (bundle / name).read_bytes()
    (bundle / name).write_bytes(data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])
    refused(bundle, f"{name} was changed")
    seal(bundle)
    refused(bundle, "is not what the model gives in the format")


@pytest.mark.parametrize("name", MATRICES)
def test_a_changed_matrix_is_refused_though_nothing_else_holds_it(plain, tmp_path, name):
    bundle = shutil.copytree(plain, tmp_path / "bundle")
    forge(bundle, **{name: other(getattr(load(plain).model, name))})
    refused(bundle)


SOME = ("branch_x", "load_p", "unit_v", "GENROU_M", "TGOV1_R", "TGOV1_VMAX")


@pytest.mark.parametrize(
    "names", [SOME, pytest.param((), marks=pytest.mark.slow)], ids=("some", "all")
)
def test_a_changed_number_of_the_case_is_refused(plain, sound, tmp_path, names):
    """By the matrices that it gives, or, where none depends on it, by the exports."""
    arrays = arrays_of(load(plain).model, load(plain).shown)
    for name in names or arrays.keys() - set(MATRICES):
        alone = name.rsplit("_", 1)[-1] in IN_NO_MATRIX
        bundle = shutil.copytree(sound if alone else plain, tmp_path / name)
        forge(bundle, **{name: other(arrays[name], by=0.5)})
        refused(bundle)


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_a_changed_matrix_of_the_reduced_form_does_not_give_the_reference(tmp_path, name):
    made = demo(form="reduced")
    made.save(tmp_path / "bundle")
    forge(tmp_path / "bundle", **{name: np.array(getattr(made.model, name)) * 1.01})
    refused(tmp_path / "bundle", r"reference\.csv|is not stable")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_number_that_is_none_is_refused(bundle, value):
    A = np.array(load(bundle).model.A)
    A[0, 0] = value
    forge(bundle, A=A)
    refused(bundle, "holds a number that no release has")


def test_an_unstable_model_is_refused(release, tmp_path):
    """Though its reference, its exports and its words are its own."""
    A = release.model.A + 0.5 * np.eye(len(release.model.states))
    unstable = replace(release, model=replace(release.model, A=A))
    unstable.save(tmp_path / "bundle")
    refused(tmp_path / "bundle", "its model is not stable")


@pytest.mark.parametrize(
    ("name", "value"),
    [("buses", 11), ("branches", 14), ("loads", 3), ("units", 3), ("slack", 9), ("form", "whole")],
)
def test_another_layout_is_refused(bundle, name, value):
    edit_document(bundle, "model", "detailed", "case", name, value=value)
    refused(bundle)


def test_other_devices_are_refused(bundle):
    devices = json.loads((bundle / "release.json").read_text())["model"]["detailed"]["case"]
    for listed in (
        devices["devices"][1:],
        [{"model": "GENSAL", "count": 4}, *devices["devices"][1:]],
        [{"model": "UNKNOWN", "count": 4}, *devices["devices"][1:]],
        [*devices["devices"], devices["devices"][0]],
    ):
        edit_document(bundle, "model", "detailed", "case", "devices", value=listed)
        refused(bundle)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("states",), ["G1 genrou.delta"]),
        (("angles",), [0, 999]),
        (("angles",), []),
        (("moved",), 0.5),
        (("moved_words",), "Nothing at all can be learnt."),
        (("case", "words"), "Nothing at all can be learnt."),
    ],
    ids=lambda value: str(value)[:20],
)
def test_other_words_and_places_are_refused(bundle, keys, value):
    edit_document(bundle, "model", "detailed", *keys, value=value)
    refused(bundle)


def test_a_swing_model_under_a_detailed_guarantee_is_refused(bundle, tmp_path):
    swing = make_release(tmp_path / "swing", demo=True)
    swing.save(tmp_path / "forged")
    document = json.loads((bundle / "release.json").read_text())
    for part in ("guarantee", "bounds", "clipped", "public_inputs"):
        edit_document(tmp_path / "forged", part, value=document[part])
    refused(tmp_path / "forged", "its model is none of those that its guarantee speaks of")


def test_a_detailed_model_under_a_swing_guarantee_is_refused(bundle, tmp_path):
    swing = make_release(tmp_path / "swing", demo=True)
    assert isinstance(swing.model, ReducedModel)
    swing.save(tmp_path / "sound")
    document = json.loads((tmp_path / "sound" / "release.json").read_text())
    for part in ("guarantee", "bounds", "clipped", "public_inputs"):
        edit_document(bundle, part, value=document[part])
    refused(bundle)
