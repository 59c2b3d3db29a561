"""A change of the operating point moves several entries: the pages tell what
scripts/operating_point.py finds.
"""

from pathlib import Path

import numpy as np
import pytest

import operating_point
from gridveil.readers.cases import read_grid

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_known_limits_and_privacy_tell_what_the_script_finds():
    up, down, load, outage = operating_point.figures().values()
    assert [len(found) for found in (up, down, load, outage)] == [41, 41, 21, 38]
    median, most = np.median, operating_point.at_most
    limits, privacy = (
        " ".join((ROOT / page).read_text(encoding="utf-8").split())
        for page in ("KNOWN_LIMITS.md", "docs/privacy.md")
    )
    assert f"k rises by 1 gives Σ|Δk| = {median(up):.2f} (median; at most {most(up)})" in limits
    assert f"so that it falls by 1, {median(down):.2f} (at most {most(down)})" in limits
    assert (
        f"a lost load up to {most(load)}, an outage up to {most(outage)} on the other lines"
        in limits
    )
    assert f"Σ|Δk| is up to {most(up)} (up) or {most(down)} (down)" in privacy


def test_at_a_flat_operating_point_a_line_is_exactly_one_item(monkeypatch):
    flat = operating_point.DYNAMICS.model_copy(update={"operating_point": "flat"})
    monkeypatch.setattr(operating_point, "DYNAMICS", flat)
    for by in (1.0, -1.0):
        found = [*operating_point.moved_lines(read_grid(operating_point.CASE), by)]
        assert len(found) == 41
        assert found == pytest.approx(np.ones(41), abs=1e-8)
