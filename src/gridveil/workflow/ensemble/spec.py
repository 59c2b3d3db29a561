"""What an ensemble is: a TOML of lists to combine, checked before anything is drawn or written."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from gridveil.foundation.errors import GridveilError, OptionError
from gridveil.foundation.toml import ABOVE_0, Declared, read_toml
from gridveil.inference.fit import Method
from gridveil.privacy.adjacency import RULES
from gridveil.privacy.allocation import MECHANISMS
from gridveil.privacy.epsilon import exact

NO_FIT = "none"
FITS: tuple[str, ...] = (NO_FIT, *get_args(Method))
MOST_SEEDS = 1_000_000
# Seeds of a task, without a fit and with one: about a second's work on a grid of some machines.
BATCH, BATCH_OF_FITS = 50, 4


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _once(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values or len(set(values)) < len(values):
        raise ValueError
    return values


def _exactly(value: Any) -> Fraction:
    try:
        return exact(value)
    except GridveilError:
        raise ValueError from None


def _among(names: tuple[str, ...]) -> Any:
    def check(name: str) -> str:
        if name not in names:
            raise ValueError
        return name

    return AfterValidator(check)


Text = Annotated[str, Field(min_length=1, max_length=1000, strict=True)]
Count = Annotated[int, Field(ge=1, le=MOST_SEEDS, strict=True)]
Rule = Annotated[Text, _among(RULES)]
Mechanism = Annotated[Text, _among(MECHANISMS)]
FitName = Annotated[Text, _among(FITS)]
Epsilon = Annotated[Fraction, BeforeValidator(_exactly)]
LISTED, ONCE = BeforeValidator(_listed), AfterValidator(_once)


def _said(words: str) -> Any:
    return Field(description=words)


def _several(words: str) -> Any:
    return _said(f"{words}: one, or a list, none twice")


_COUNT = _said(f"a whole number from 1 to {MOST_SEEDS}")


class SeededRecord(Declared):
    """The public record that fits see, simulated from the case itself.

    event : on the case's own buses.
    machines : how many of them were recorded, evenly picked; None: all.
    sigma : of its noise, white, of the row's seed [p.u. frequency].
    """

    event: Annotated[Text, _said("an event such as uniform:+20%")] = "uniform:+20%"
    machines: Annotated[Count | None, _COUNT] = None
    sigma: Annotated[float, ABOVE_0] = 1e-4


class Spec(Declared):
    """What is combined: each case with each rule, mechanism, ε and fit, each with all seeds.

    seeds : how many, from first_seed on.
    batch : seeds of a task, and of a file; None: BATCH, with a fit BATCH_OF_FITS.
    events : steps that no fit sees, on which releases are judged; None: some of each case.
    public : whether cases that are files are public, which their user has to say.
    reading : how cases are read, by the names of a release.toml; loads count as public.
    """

    case: Annotated[tuple[Text, ...], LISTED, ONCE, _several("public cases such as ieee30")]
    epsilon: Annotated[tuple[Epsilon, ...], LISTED, ONCE, _several('numbers such as "1/2"')]
    adjacency: Annotated[tuple[Rule, ...], LISTED, ONCE, _several(", ".join(RULES))] = (
        "one-asset",
    )
    mechanism: Annotated[tuple[Mechanism, ...], LISTED, ONCE, _several(", ".join(MECHANISMS))] = (
        "aggregates",
    )
    fit: Annotated[tuple[FitName, ...], LISTED, ONCE, _several(", ".join(FITS))] = ("none",)
    seeds: Annotated[Count, _COUNT] = 100
    first_seed: Annotated[int, Field(ge=0, lt=2**53, strict=True, description="0 or more")] = 1
    batch: Annotated[Count | None, _COUNT] = None
    events: Annotated[
        tuple[Text, ...] | None,
        Field(min_length=1, max_length=100, description="a list of events such as load:5=+0.1"),
    ] = None
    public: Annotated[bool, Field(strict=True, description="true or false")] = False
    reading: dict[str, Any] = Field(
        default_factory=dict, description="a table such as {inertia = 10}"
    )
    record: SeededRecord = SeededRecord()

    @classmethod
    def from_file(cls, path: Path) -> Spec:
        """Read a TOML; an error names the file and the key."""
        return cls.from_table(path.name, read_toml(path))

    @classmethod
    def from_table(cls, place: str, data: dict[str, Any]) -> Spec:
        """Check what a TOML, or a Python dict, says; place : its name, for errors."""
        if isinstance(data, dict) and "record" in data:
            data = data | {"record": SeededRecord.read(f"{place} [record]", data["record"])}
        spec = cls.read(place, data)
        if all(fit != NO_FIT for fit in spec.fit) and "items" not in spec.mechanism:
            raise OptionError(
                "fit needs the mechanism items, and mechanism has none",
                file=place,
                expected='"items" in mechanism, or "none" in fit',
            )
        return spec

    def seeds_of_a_batch(self, fit: str) -> int:
        """How many seeds are computed, and kept, together."""
        return self.batch or (BATCH if fit == NO_FIT else BATCH_OF_FITS)
