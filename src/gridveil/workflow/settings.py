"""Settings of a release: one checked type for the command line, a `release.toml` and Python.

Defaults are the fields' own; what depends on a profile is in `planning.profiles`. Errors name an
option or key and what it may be, never a value of a grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from fractions import Fraction
from functools import cached_property
from os import fspath
from pathlib import Path
from typing import Any, Self, get_args

from gridveil.dynamics.detailed.entries import ENTRIES, Treatment
from gridveil.foundation.arguments import a_place, of_type, takes
from gridveil.foundation.errors import NOTHING_SPENT, InputError, OptionError
from gridveil.foundation.looks import looks
from gridveil.foundation.toml import read_toml
from gridveil.grid.parameters import (
    DECLARED,
    DETAILED,
    FAMILIES,
    PARAMETERS,
    SWING,
    WEIGHT,
    Asset,
    Bounds,
    Range,
    family_of,
    parameters_of,
)
from gridveil.inference.records import Declaration, declaration, read_declaration
from gridveil.planning.profiles import PROFILES, Profile
from gridveil.privacy.adjacency import RULES_OF, Adjacency
from gridveil.privacy.allocation import ITEMS, MECHANISMS, Allocation, aggregates, topology
from gridveil.privacy.epsilon import exact
from gridveil.privacy.ledger import Account, default_location
from gridveil.publication.detailed import Form
from gridveil.readers.dynamics import Detailed, Dynamics, Policy

# What may be said of a grid over its file and a file of dynamics.
TABLES = ("fuels", "machines", "policy", "detailed", "bounds")
READING = (
    *(name for name in Dynamics.model_fields if name not in TABLES),
    *Policy.model_fields,
    *Detailed.model_fields,
)
# Of those, what a detailed model takes from its file, or has no place for.
OF_SWING = (
    "inertia",
    "damping",
    "governor_rate",
    "droop_gain",
    "load_damping",
    "base",
    "omega_b",
    "operating_point",
    "taps",
    "without_dynamics",
    "publish_loads",
)
SHARINGS = ("equal", "rating")
MOST_DRAWS = 1000
USUAL_RULES = {SWING: "one-asset", DETAILED: "one-asset-relative"}


@dataclass(frozen=True, kw_only=True)
class GridSettings:
    """A grid, how it is read, its public bounds and who is a neighbour: what every look at it
    needs.

    grid : a file, or a name such as ieee30.
    dynamics : a file with dynamics and policies.
    reading : what is said over both, by the names in READING.
    adjacency : the rule; None: the ledger's or the profile's.
    model : swing, detailed, or auto: a detailed one where the file has controls of its machines and
    no setting is of swing models alone.
    alpha : distances protected, by group; a group left out has the rule's own.
    bounds : public; of a parameter that is not given, the grid's own, or what is derived.
    derive : whether bounds that are not given, and α, are derived from public facts of the grid,
    which this declares public.
    trajectory : public records to fit, or to look at.
    """

    grid: str
    dynamics: Path | None = None
    reading: Mapping[str, Any] = field(default_factory=dict, repr=False)
    adjacency: str | None = None
    model: str = SWING
    alpha: Mapping[str, Fraction] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=Bounds)
    derive: bool = False
    trajectory: tuple[Declaration, ...] = ()

    def __post_init__(self) -> None:
        check_one_of("model", self.model, ("auto", "swing", "detailed"))
        named = {*self.alpha, *(self.bounds if self.bounds.family != SWING else ())}
        if self.model == SWING and family_of(named) != SWING:
            raise OptionError(
                f"{min(named & parameters_of(DETAILED).keys())} is of detailed models, and --model "
                "swing was chosen.",
                expected=f"groups among {', '.join(PARAMETERS)}",
                outcome=NOTHING_SPENT,
                remedy="Leave it out, or choose --model detailed.",
            )
        if self.model == SWING and (self.adjacency or "").startswith("asset-l1"):
            raise OptionError(
                f"{self.adjacency} is an adjacency of detailed models, and --model swing was "
                "chosen.",
                expected=f"one of {', '.join(RULES_OF[SWING])}",
                outcome=NOTHING_SPENT,
                remedy="Choose another, or --model detailed.",
            )
        adjacency_over(None, self.adjacency, self.alpha, self.said_family or SWING)

    @property
    def said_family(self) -> str | None:
        """The family that the settings name; None: the file decides."""
        rule = self.adjacency or ""
        named = {*self.alpha, *(self.bounds if self.bounds.family != SWING else ())}
        if self.model == DETAILED or rule.startswith("asset-l1") or family_of(named) != SWING:
            return DETAILED
        return SWING if self.model == SWING or self.swing_only else None

    @property
    def swing_only(self) -> tuple[str, ...]:
        """What is set that only swing models have."""
        said = [name for name in OF_SWING if name in self.reading]
        said += ["bounds"] if self.bounds.family == SWING and self.bounds.given else []
        said += ["alpha"] if self.alpha and family_of(self.alpha) == SWING else []
        said += ["adjacency"] if self.adjacency and not self.adjacency.endswith("-relative") else []
        return tuple(said)

    def bounds_of(self, family: str) -> Bounds:
        """Public bounds of a family: what was given, or its own."""
        return self.bounds if self.bounds.family == family else Bounds(family=family)

    @classmethod
    def keys(cls) -> set[str]:
        """Names that `of` knows: the fields, and what says how a grid is read."""
        return {f.name for f in fields(cls)} - {"reading", "derive"} | {*READING, "bounds_origin"}

    @classmethod
    def of(cls, given: Mapping[str, Any] | None = None, /, **more: Any) -> Self:
        """Read settings as options and a release.toml have them: texts such as "1/2", "k=1,m=1/2"
        and "k=1:100".
        """
        return cls(**cls.read({**(given or {}), **more}))

    @classmethod
    def read(cls, given: Mapping[str, Any], config: Path | None = None) -> dict[str, Any]:
        """Turn texts into the fields' own types; what is None counts as not given."""
        known = {name: value for name, value in given.items() if value is not None}
        if unknown := known.keys() - cls.keys():
            raise unknown_key(min(unknown), cls.keys())
        if "grid" not in known:
            raise missing("grid", "GRID")
        settings = {name: known[name] for name in known if name not in (*READING, "bounds_origin")}
        settings["grid"] = str(known["grid"])
        settings["reading"] = {name: known[name] for name in READING if name in known}
        settings["bounds"] = bounds_over(
            profile_named(known.get("profile", "default")).bounds,
            known.get("bounds"),
            known.get("bounds_origin"),
        )
        settings["derive"] = derives(known.get("bounds"))
        if "dynamics" in known:
            settings["dynamics"] = Path(known["dynamics"])
        settings["alpha"] = alpha_of(known.get("alpha"))
        settings["trajectory"] = declarations(known.get("trajectory"), config)
        return settings


_BY_NAME = of_type(Mapping, "values by name; of texts, use ReleaseSettings.of(...)")


@looks(lambda own: f"{own.grid}: ε = {own.epsilon}, {own.adjacency or 'the usual adjacency'}")
@takes(
    outcome=NOTHING_SPENT,
    grid=of_type(str, "a grid's name or path", fspath),
    adjacency=of_type(str, "a rule, such as 'one-asset'"),
    reading=_BY_NAME,
    alpha=_BY_NAME,
    bounds=of_type(Bounds, "Bounds, such as Bounds(m=(1, 40))", Bounds),
    split=_BY_NAME,
    treatments=_BY_NAME,
    out=a_place("a path"),
)
@dataclass(frozen=True, kw_only=True)
class ReleaseSettings(GridSettings):
    """Everything that a release needs.

    epsilon : privacy loss, exact.
    mechanism : None: the profile's, or items where there is a trajectory.
    split : shares of epsilon by group; None: chosen on a surrogate. Of a detailed model, by asset,
    the share of its items; its means have the rest.
    treatments : what is done with parameters of a detailed model; one left out has its usual
    treatment, or is published where the lineage publishes it.
    share_by : how machines share a sum, equal or rating.
    surrogate : a public case to choose the shares on; None: this topology at the middle of the
    bounds.
    profile : settings that belong together; None: default.
    out : the bundle, a folder or a file that ends in .zip.
    ledger, witness : places; None: the usual ones.
    lineage : the account to charge; None: the grid's name.
    count : how many releases to draw.
    formats : other tools' formats to put into the bundle.
    merge_loads : equal, or a number of zones.
    form : what a detailed release shows beside its linear model: reduced, or the whole network.
    """

    epsilon: Fraction
    model: str = "auto"
    mechanism: str | None = None
    split: Mapping[str, Fraction] | None = None
    treatments: Mapping[str, Treatment] = field(default_factory=dict)
    share_by: str = "equal"
    surrogate: str | None = None
    profile: str | None = None
    out: Path = Path("release")
    ledger: str | None = None
    witness: str | None = None
    lineage: str | None = None
    count: int = 1
    formats: tuple[str, ...] = ()
    merge_loads: str | None = None
    form: Form = "reduced"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        object.__setattr__(self, "out", Path(self.out))
        check_one_of("form", self.form, get_args(Form))
        profile_named(self.profile or "default")
        if not (type(self.count) is int and 1 <= self.count <= MOST_DRAWS):
            raise OptionError(
                "The count of draws is not usable.",
                expected=f"a whole number from 1 to {MOST_DRAWS}",
            )
        merged = None if self.merge_loads is None else str(self.merge_loads)
        object.__setattr__(self, "merge_loads", merged)
        if merged is not None and not (merged == "equal" or merged.isdecimal()):
            raise OptionError(
                f"--merge-loads {merged} cannot be read.",
                expected="equal, or a number of zones",
                outcome=NOTHING_SPENT,
            )
        if self.model == SWING and (self.treatments or self.item_shares):
            said = "treatments" if self.treatments else "split"
            raise OptionError(
                f"--{said} names what swing models have not.",
                outcome=NOTHING_SPENT,
                remedy="Leave it out, or choose --model detailed.",
            )
        if self.item_shares and len(self.item_shares) < len(self.split or ()):
            raise OptionError(
                "--split names assets of a detailed model and other groups beside them.",
                expected=f"shares of {', '.join(get_args(Asset))}",
                outcome=NOTHING_SPENT,
            )
        # A mistake in these is found before a file is read.
        if self.said_family != DETAILED and (allocation := self.allocation):
            allocation.over(self.neighbours(None)).split(self.epsilon, allocation.assets)

    @classmethod
    def from_file(cls, config: Path | None, given: Mapping[str, Any]) -> Self:
        """Merge what is given over a release.toml over defaults, and check all of it.

        Of alpha, bounds and treatments, what is given of one group leaves the file's others as they
        are.
        """
        known = _read_config(config, cls.keys()) if config else {}
        chosen = {name: value for name, value in given.items() if value is not None}
        for name in ("alpha", "bounds", "treatments"):
            if name in known and name in chosen:
                chosen[name] = pairs_of(name, known[name]) | pairs_of(name, chosen[name])
        return cls(**cls.read(known | chosen, config))

    @classmethod
    def read(cls, given: Mapping[str, Any], config: Path | None = None) -> dict[str, Any]:
        """Turn texts into the fields' own types."""
        settings = super().read(given, config)
        if "epsilon" not in settings:
            raise missing("epsilon", "--epsilon")
        settings["epsilon"] = exact(settings["epsilon"])
        readers = {
            "split": shares_of,
            "treatments": treatments_of,
            "out": Path,
            "formats": names_of,
            "merge_loads": str,
        }
        return settings | {
            name: read(settings[name]) for name, read in readers.items() if name in settings
        }

    @property
    def preset(self) -> Profile:
        """The profile's own settings."""
        return profile_named(self.profile or "default")

    @property
    def ledger_place(self) -> str:
        """Where the ledger lies."""
        return self.ledger or default_location()

    @property
    def places(self) -> list[Path]:
        """Where each bundle goes."""
        if self.count == 1:
            return [self.out]
        stem, suffix = self.out.stem, self.out.suffix
        return [self.out.with_name(f"{stem}-{n + 1}{suffix}") for n in range(self.count)]

    @property
    def item_shares(self) -> dict[Asset, Fraction]:
        """What items have of an asset's ε, of a detailed model, where that was said."""
        known: tuple[Asset, ...] = get_args(Asset)
        return {asset: self.split[asset] for asset in known if self.split and asset in self.split}

    @property
    def said_family(self) -> str | None:
        """The family that the settings name; None: the file decides."""
        return DETAILED if self.treatments or self.item_shares else super().said_family

    @property
    def swing_only(self) -> tuple[str, ...]:
        """What is set that only swing models have."""
        own = ("mechanism", "split", "surrogate", "profile", "merge_loads")
        said = [name for name in own if getattr(self, name) is not None]
        if self.item_shares:
            said.remove("split")
        said += ["share_by"] if self.share_by != "equal" else []
        return (*super().swing_only, *said)

    def check_detailed(self) -> None:
        """Refuse what a detailed release has no place for, before anything is charged."""
        if said := self.swing_only:
            option = said[0].replace("_", "-")
            raise OptionError(
                f"--{option} is for swing models, and this release has a detailed one.",
                outcome=NOTHING_SPENT,
                remedy=f"Leave --{option} out, or choose --model swing.",
            )

    def neighbours(
        self,
        account: Account | None,
        family: str = SWING,
        derived: Mapping[str, Fraction] | None = None,
    ) -> Adjacency:
        """What was asked for; where nothing was, what the lineage's budget fixes, else the
        profile's rule (of detailed models, one-asset-relative), the usual α and nothing published.

        derived : α of groups to take before the usual ones where no budget fixes any.
        """
        fixed = account.adjacency if account else None
        preset = self.preset.rule if family == SWING else USUAL_RULES[family]
        usual = preset if fixed is None or self.profile is not None else None
        asked = self.adjacency or usual
        alpha = self.alpha
        if fixed is None and derived and not (asked or "").endswith("-relative"):
            alpha = {**derived, **alpha}
        found = adjacency_over(fixed, asked, alpha, family)
        kept = {name for name in found.published if name not in self.treatments}
        said = {name for name, way in self.treatments.items() if way == "publish"}
        return replace(found, published=tuple(kept | said))

    @property
    def drawn(self) -> str:
        """The mechanism that was asked for, or the usual one."""
        return self.mechanism or ("items" if self.trajectory else self.preset.mechanism)

    @cached_property
    def allocation(self) -> Allocation | None:
        """What is drawn, and its shares, where settings alone say so; None where a surrogate has to
        be asked.
        """
        check_one_of("mechanism", self.drawn, MECHANISMS)
        check_one_of("share-by", self.share_by, SHARINGS)
        sharing: Any = self.share_by
        if self.surrogate is not None and (self.split is not None or self.drawn == "items"):
            raise OptionError(
                "A surrogate chooses how ε is shared, and here there is nothing to choose.",
                outcome=NOTHING_SPENT,
                remedy="Leave --surrogate out, or --split and --mechanism items.",
            )
        if self.drawn == "items":
            return Allocation(shares=self.split) if self.split is not None else ITEMS
        if self.split is None:
            return None
        if self.drawn == "topology":
            return topology(shares=self.split, sharing=sharing)
        return aggregates(lines=WEIGHT.name in self.split, shares=self.split, sharing=sharing)


def adjacency_over(
    fixed: Adjacency | None,
    rule: str | None,
    alpha: Mapping[str, Fraction],
    family: str | None = None,
) -> Adjacency:
    """What was asked for; where nothing was, what a budget fixes, else the usual rule and its usual
    α.

    family : None: the budget's, else that of alpha.
    """
    family = family or (fixed.family if fixed else family_of(alpha))
    rule = rule or (fixed.rule if fixed else USUAL_RULES[family])
    same = fixed and fixed.rule == rule and fixed.family == family
    usual = fixed if fixed and same else Adjacency(rule, family=family)  # pyright: ignore[reportArgumentType]
    alpha = {**usual.alpha, **alpha}
    return Adjacency(usual.rule, alpha, family=family, published=usual.published)


def profile_named(name: Any) -> Profile:
    """Look a profile up."""
    if name not in PROFILES:
        raise OptionError(
            f"The profile {name!r} is unknown.", remedy=f"Choose one of {', '.join(PROFILES)}."
        )
    return PROFILES[name]


def check_one_of(option: str, value: Any, known: tuple[str, ...]) -> None:
    """Refuse a word that an option does not know."""
    if value not in known:
        raise OptionError(
            f"--{option} {value} is unknown.",
            outcome=NOTHING_SPENT,
            remedy=f"Choose one of {', '.join(known)}.",
        )


def alpha_of(value: Any) -> dict[str, Fraction]:
    """Distances protected, exact, by group: of "k=1,m=1/2", or of a mapping."""
    return {
        name: exact(distance, name=f"alpha of {name}")
        for name, distance in pairs_of("alpha", value, _names(PARAMETERS)).items()
    }


def bounds_over(usual: Bounds, value: Any, origin: Any = None) -> Bounds:
    """Public bounds: of "k=1:100,m=1:40", or of a mapping, over the usual ones."""
    if isinstance(value, Bounds):
        return value
    pairs = pairs_of("bounds", value, _names(DECLARED))
    pairs.pop(DERIVE, None)
    family = family_of(pairs)
    given = {name: _range(name, text, family) for name, text in pairs.items()}
    kept = {name: usual[name] for name in usual.given if family == SWING}
    return Bounds(
        {**kept, **given},
        origin=origin or ("declared public by the owner" if given else usual.origin),
        family=family,
    )


def derives(value: Any) -> bool:
    """Whether bounds that are not given are to be derived: "derived", or "derived,m=1:40"."""
    return not isinstance(value, Bounds) and DERIVE in pairs_of("bounds", value)


def _names(of_swing: Iterable[str]) -> tuple[str, ...]:
    """Names of groups of either family."""
    return (*of_swing, *parameters_of(DETAILED))


def shares_of(value: Any) -> dict[str, Fraction]:
    """Shares of epsilon, by group: of "k=1,m=1/2,d=1/2", or of a mapping."""
    pairs = pairs_of("split", value)
    return {name: exact(share, name=f"share of {name}") for name, share in pairs.items()}


def treatments_of(value: Any) -> dict[str, Treatment]:
    """What is done with each parameter: of "M=protect,x=mean", or of a mapping."""
    ways: tuple[Treatment, ...] = get_args(Treatment)
    pairs = pairs_of("treatments", value)
    for name, way in pairs.items():
        if name not in ENTRIES:
            close = get_close_matches(str(name)[:100], ENTRIES, n=1, cutoff=0.4)
            raise OptionError(
                f"--treatments {name} is no parameter of a detailed model.",
                expected=f"one of {', '.join(ENTRIES)}",
                outcome=NOTHING_SPENT,
                remedy=f"Did you mean {close[0]}?" if close else "",
            )
        if way not in ways:
            raise OptionError(
                f"--treatments {name}={way} is no treatment.",
                expected=f"one of {', '.join(ways)}",
                outcome=NOTHING_SPENT,
            )
    return pairs


DERIVE = "derived"  # of bounds: what stands for all that are not given
EXAMPLES = {
    "alpha": "k=1,m=1/2",
    "bounds": "k=1:100,m=1:40",
    "split": "k=1,m=1/2,d=1/2",
    "treatments": "M=protect,x=mean",
}


def pairs_of(option: str, value: Any, known: Iterable[str] | None = None) -> dict[str, Any]:
    """Values by group, of a text such as "k=1,m=1/2" or of a mapping; known : the groups."""
    if value is None:
        return {}
    pairs: dict[str, Any] = dict(value) if isinstance(value, Mapping) else {}
    for part in [] if isinstance(value, Mapping) else str(value).split(","):
        name, equals, text = (piece.strip() for piece in part.partition("="))
        bare = not equals and (option, name) == ("bounds", DERIVE)
        if not (equals or bare) or name in pairs:
            raise OptionError(
                f"--{option} cannot be read.",
                expected=f"each group once, such as {EXAMPLES[option]}",
            )
        pairs[name] = text
    for name in pairs:
        if known is not None and name not in known and (option, name) != ("bounds", DERIVE):
            raise OptionError(
                f"--{option} {name} is unknown.",
                expected=f"groups among {', '.join(known)}, as in {EXAMPLES[option]}",
            )
    return pairs


def _range(name: str, value: Any, family: str) -> Range:
    if isinstance(value, Range):
        return value
    lower, _, upper = str(value).partition(":")
    try:
        return Range(float(lower), float(upper), FAMILIES[family][name].bounds.signed)
    except ValueError:
        raise OptionError(
            f"--bounds {name} is not two numbers.", expected="lower:upper, such as 1:100"
        ) from None
    except OptionError as error:
        raise OptionError(f"--bounds {name}: {error.problem}", remedy=error.remedy) from None


def names_of(value: Any) -> tuple[str, ...]:
    """Names in a text with commas, or in a list."""
    listed = value.split(",") if isinstance(value, str) else value
    return tuple(name.strip() for name in listed if name.strip())


def declarations(value: Any, config: Path | None = None) -> tuple[Declaration, ...]:
    """Read what declares trajectories: paths of TOML files, or in a release.toml such tables
    themselves.
    """
    listed = list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]
    declared: list[Declaration] = []
    files: set[Path] = set()
    for given in listed:
        if isinstance(given, (str, Path)):
            if (place := Path(given).absolute()) in files:
                raise OptionError(
                    f"The trajectory {given} is given twice, and would count as two records.",
                    outcome=NOTHING_SPENT,
                    remedy="Give each once.",
                )
            files.add(place)
            declared.append(read_declaration(Path(given)))
        elif isinstance(given, Declaration):
            declared.append(given)
        else:
            file, folder = (config.name, config.parent) if config else ("settings", Path())
            declared.append(declaration(given, file=f"{file} [trajectory]", folder=folder))
    return tuple(declared)


def missing(name: str, meaning: str) -> OptionError:
    """Say that a setting without a default was not given."""
    return OptionError(
        f"{meaning} is missing.",
        remedy=f"Give {meaning} on the command line or {name} = … in release.toml.",
    )


def unknown_key(name: str, known: Iterable[str], file: str = "") -> OptionError:
    """Say that a key is unknown, and which one is nearest."""
    known = sorted(known)
    close = get_close_matches(name[:100], known, n=1)
    return OptionError(
        f"the key {name!r} is unknown",
        file=file,
        expected=f"one of {', '.join(known)}",
        remedy=f"Did you mean {close[0]}?" if close else "Correct it and try again.",
    )


# Keys of a release.toml that are no text: exact numbers may be either.
NUMBERS = {"epsilon", "count", "merge_loads", "trajectory", *READING}


def _read_config(path: Path, keys: set[str]) -> dict[str, Any]:
    config = {name.replace("-", "_"): value for name, value in read_toml(path).items()}
    for name, value in config.items():
        if name not in keys:
            raise unknown_key(name, keys, path.name)
        if name == "treatments" and isinstance(value, dict):
            continue
        if name not in NUMBERS and not isinstance(value, str):
            raise InputError(f"{name} is not usable", file=path.name, expected="text in quotes")
    return config
