"""The way of a release through the code, as scripts/walk.py counts it."""

import walk


def test_a_release_with_a_trajectory_reduces_its_network_three_times_and_lists_pairs_once_each():
    found = walk.walk("star5", trajectory=True)
    assert found["Kron eliminations"] == 3  # the start, the middle of the posterior, the result
    assert found["complete_edges"] < 20 < found["Kron evaluations of the fit"]


def test_a_release_asks_once_whether_its_place_is_free():
    assert walk.walk("star5", trajectory=False)["checks"]["foundation.archive.check_free"] == 1
