"""A trajectory is used only with a declared origin."""

import pytest

from gridveil.foundation.errors import OptionError
from gridveil.privacy.provenance import Provenance

WHOLE = {
    "origin": "measured",
    "source": "TSO",
    "date": "2025-04-28",
    "link": "https://example.org/x",
    "event_source": "TSO's report",
}


def test_a_measured_trajectory_says_where_when_and_for_whom_it_can_be_read():
    words = Provenance(**WHOLE).in_words()
    assert all(
        part in words for part in ("TSO", "2025-04-28", "https://example.org/x", "TSO's report")
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"origin": "guessed"}, "measured or simulated"),
        ({"source": " "}, "who published"),
        ({"date": ""}, "2026-05-24"),
        ({"date": "2025-02-30"}, "2026-05-24"),
        ({"date": "2025-04-28T12:33"}, "2026-05-24"),
        ({"date": "2999-01-01"}, "public already"),
        ({"link": "on my desk"}, "https://"),
        ({"event_source": ""}, "size and place of the event"),
    ],
)
def test_what_is_not_declared_is_refused(change, said):
    with pytest.raises(OptionError, match=said) as refusal:
        Provenance(**WHOLE | change)
    assert "nothing was spent" in str(refusal.value)


def test_a_simulated_one_needs_no_more_than_a_name():
    assert "demo only" in Provenance("simulated", "the case").in_words()
