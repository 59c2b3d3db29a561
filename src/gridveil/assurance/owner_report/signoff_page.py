"""The sign-off report: one confidential page for the two who sign a release off, and the same
figures for scripts. It is written outside the bundle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gridveil.assurance.owner_report.attacks import attack_release, check_attackable
from gridveil.assurance.owner_report.fidelity import (
    NOT_COMPARED,
    PUBLIC,
    RELEASE,
    SIMPLEST,
    Fidelity,
    assess_fidelity,
)
from gridveil.assurance.owner_report.signoff import CONFIDENTIAL
from gridveil.assurance.owner_report.signoff_facts import (
    Document,
    budget,
    carried_records,
    checks,
    fit,
    groups,
    leaving,
    records,
    verdict,
)
from gridveil.assurance.owner_report.signoff_html import page
from gridveil.foundation.archive import SUMS, check_free, inside_bundle, write_new
from gridveil.foundation.chart import Series, Shade, chart
from gridveil.foundation.errors import OptionError
from gridveil.foundation.looks import looks
from gridveil.foundation.progress import stage
from gridveil.foundation.sealed import sealed
from gridveil.foundation.version import __version__
from gridveil.grid.parameters import SWING
from gridveil.inference.fit import Observation
from gridveil.inference.fit.two_stage import is_too_large
from gridveil.privacy.ledger import Ledger
from gridveil.publication.bundle import Verified, load_verified
from gridveil.publication.certificate import SELECTION
from gridveil.vault.source import Private, SourceGrid

NOT_VETOED = (
    "Decide by what is public. Sections marked “saw the grid” compare with the private grid: to "
    "choose among releases, or to veto one, by them has no ε bound."
)
REFERENCE = (
    "What the grid answers is its own table in the same kind of model, without noise; what that "
    "model leaves out itself is not in these figures."
)
MOVED = (
    "The grid's own model did not stand by itself and was moved toward public values, as a release "
    "would be: figures are those of a neighbour of the grid."
)


@looks(lambda own: f"{own.name}: CONFIDENTIAL")
@dataclass(frozen=True, eq=False, repr=False)
class Signoff:
    """A sign-off report. What it holds is `Private`: it leaves by `write` and `to_json`, marked.

    name : of the bundle.
    """

    name: str
    document: Private[Document]
    html: Private[str]

    @sealed
    def to_json(self) -> Document:
        """The figures of the page in JSON's types. CONFIDENTIAL."""
        return Private.open(self.document)

    @sealed
    def write(self, path: str | Path) -> None:
        """Write the page as a new file that its owner alone may read; never inside a bundle, and
        over nothing.
        """
        path = Path(path)
        check_outside(path)
        page = Private.open(self.html).encode()
        write_new(path, page, what="The sign-off report", mode=0o600)


def check_outside(path: Path) -> None:
    """Refuse a place that is taken, or inside a bundle: what is confidential would travel with what
    is public.
    """
    if inside_bundle(path, SUMS):
        raise OptionError(
            f"{path} lies inside a bundle, which is public; this report is confidential.",
            outcome="Nothing was written.",
            remedy="Name a place outside it.",
        )
    check_free(path)


@sealed
def signoff(
    bundle: str | Path,
    source: SourceGrid[Any],
    ledger: Ledger | None,
    observed: Sequence[Observation] = (),
) -> Signoff:
    """Put all together that two people need to sign a release off.

    bundle : its folder or zip, which must verify.
    source : the grid that it was made of.
    ledger : where its draw was charged; None: there is none here.
    observed : the public records that it was fitted to, on the grid's buses; those that a bundle
    carries need not be given.

    Privacy
    -------
    For the owner alone: half of it compares with the truth, and no ε covers it. It charges nothing.
    """
    path = Path(bundle)
    stage("verifying the bundle")
    verified = load_verified(path)
    release, facts = verified.release, source.facts
    check_attackable(source, release)
    seen = list(observed) or carried_records(release, facts)
    stage("reading the ledger")
    guarantee = release.guarantee
    document: Document = {
        "confidential": CONFIDENTIAL,
        "demo": release.demo,
        "written": datetime.now(UTC).strftime("%Y-%m-%d"),
        "gridveil": __version__,
        "leaves": leaving(path, verified),
        "budget": budget(verified, ledger),
        "epsilon": {
            "groups": groups(release, facts),
            "joint": {
                "asked": str(guarantee.epsilon),
                "charged": float(guarantee.spent),
                "adjacency": guarantee.rule,
                "mechanism": guarantee.mechanism,
            },
            "published": list(guarantee.published),
        },
        "guarantee": {
            "words": guarantee.in_words(),
            "conditional_on": list(guarantee.conditional_on),
        },
        "not_protected": list(release.not_protected),
        "public_inputs": dict(release.public_inputs),
    }
    stage("computing what the records give away")
    document["records"] = records(release, facts, seen)
    document["fit"] = fit(release)
    found = attack_release(source, release, _attackers_records(seen, source, verified))
    stage("simulating events that no fit saw")
    compared = assess_fidelity(source, release, seen)
    document["attacks"] = found.document
    document["fidelity"] = _fidelity_json(compared)
    document["selection"] = {"words": NOT_VETOED, "several_draws": SELECTION}
    document["verdict"] = verdict(list(checks(document, found.document.get("doubts", ()))))
    html = page(document, found.notes, found.tables, found.charts, _charts(compared))
    return Signoff(document["leaves"]["name"], Private(document), Private(html))


def _attackers_records(
    seen: Sequence[Observation], source: SourceGrid[Any], bundle: Verified
) -> Sequence[Observation]:
    """Records that attackers are given: beside swing releases of a size that can be fitted."""
    if bundle.release.guarantee.family != SWING or is_too_large(source.facts):
        return ()
    return seen


def _fidelity_json(compared: Private[Fidelity] | None) -> Document:
    if compared is None:
        return {"words": NOT_COMPARED, "events": [], "modes": [], "models": {}, "band_level": None}
    found = Private.open(compared)
    return {
        "words": f"{REFERENCE} {MOVED}" if found.moved else REFERENCE,
        "models": dict(found.models),
        "band_level": found.level,
        "events": [asdict(row) for row in found.events],
        "modes": [asdict(row) for row in found.modes],
    }


def _charts(compared: Private[Fidelity] | None) -> list[str]:
    """Frequency at a machine after held-out events: truth, release with its band, controls."""
    if compared is None:
        return []
    found, drawn = Private.open(compared), list[str]()
    for one in found.curves:
        series = [
            Series("the grid itself", "truth", one.time_s, one.truth),
            Series("release", "release", one.time_s, one.by_model[RELEASE]),
            Series("no release: public facts", "control", one.time_s, one.by_model[PUBLIC]),
            Series("simplest: one machine", "simple", one.time_s, one.by_model[SIMPLEST]),
        ]
        shade = None
        if one.band is not None and found.level is not None:
            shade = Shade(f"{100 * found.level:.0f} % band of the release", one.time_s, *one.band)
        title = f"Machine {one.machine} after a step of load at {one.place}"
        drawn.append(chart(title, series, x="time [s]", y="deviation [mHz]", shade=shade))
    return drawn
