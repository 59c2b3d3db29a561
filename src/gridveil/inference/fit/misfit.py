"""How near a detailed release is to public records, beside what they tell without it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

# What is compared, by the fields of Rms.
COMPARED = {
    "release": "release",
    "unfitted": "release, unfitted",
    "public_values": "control: public values",
    "frequency_response": "control: frequency response",
}


@dataclass(frozen=True)
class Rms:
    """Root mean square of what models leave of one place's record [mHz]; None: not computed.

    seconds : recorded time that counts.
    release : as fitted; unfitted : the release before its fit.
    public_values, frequency_response : the controls, which know of no release.
    """

    seconds: float
    release: float | None
    unfitted: float | None
    public_values: float | None
    frequency_response: float | None


@dataclass(frozen=True)
class PlaceMisfit:
    """How near models are to one place of a record; both are numbered from 1, in their own order.

    whole : fitted to all of the record.
    held_out : fitted to its first part, judged by the rest; None: too short, or the grid too large.
    """

    record: int
    place: int
    whole: Rms
    held_out: Rms | None = None

    def unfitted(self) -> PlaceMisfit:
        """The same where the fit was discarded: the unfitted release is the release."""
        held = self.held_out and replace(self.held_out, release=self.held_out.unfitted)
        return replace(self, whole=replace(self.whole, release=self.whole.unfitted), held_out=held)


def compared(places: Sequence[PlaceMisfit]) -> Iterator[tuple[PlaceMisfit, str, list[str]]]:
    """Rows of a table: a place, what it is judged by, and a figure for each of COMPARED [mHz]."""
    for place in places:
        for part, judged in ((place.whole, "all"), (place.held_out, "rest held out")):
            if part is not None:
                values = [getattr(part, name) for name in COMPARED]
                yield place, judged, ["not computed" if v is None else f"{v:.3g}" for v in values]


def mismatches(
    places: Sequence[PlaceMisfit], frequency_hz: float
) -> tuple[float | None, float | None]:
    """J = Σ ∫ |y − ŷ|² dt over all places, of a release before its fit and after [p.u.² s]; None:
    not computed.
    """
    return (
        _mismatch([(p.whole.seconds, p.whole.unfitted) for p in places], frequency_hz),
        _mismatch([(p.whole.seconds, p.whole.release) for p in places], frequency_hz),
    )


def _mismatch(of: Sequence[tuple[float, float | None]], frequency_hz: float) -> float | None:
    known = [seconds * rms * rms for seconds, rms in of if rms is not None]
    if not known or len(known) < len(of):
        return None
    return sum(known) / (1000 * frequency_hz) ** 2
