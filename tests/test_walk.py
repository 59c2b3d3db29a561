"""The way of a release through the code, as scripts/walk.py counts it."""

import walk


def test_a_release_with_a_trajectory_reduces_its_network_a_few_times_for_each_search_and_member():
    found = walk.walk("star5", trajectory=True)
    # the start; the middle of the posterior and the result of each search, of which the noise asks
    # for up to four, the guard for one or two more; the members of the ensemble
    whole = found["Kron eliminations"] - found["Kron eliminations of the fit"]
    assert 0 < whole <= 1 + 2 * 6 + 49
    assert found["complete_edges"] < 4 * found["Kron eliminations"]
    assert found["Kron evaluations of the fit"] > 100


def test_a_release_asks_once_whether_its_place_is_free():
    assert walk.walk("star5", trajectory=False)["checks"]["foundation.archive.check_free"] == 1
