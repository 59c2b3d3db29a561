"""The public half of a sign-off report: what leaves, at what cost, with which promise. None of it
saw a private value, so that whoever decides by it spends nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from gridveil.adversary.leakage.report import GIVEN_AWAY, percent
from gridveil.dynamics.detailed.entries import entries_of
from gridveil.dynamics.events import Event
from gridveil.dynamics.trajectory import Trajectory
from gridveil.foundation.errors import GridveilError
from gridveil.foundation.shown import shown
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import GridFacts
from gridveil.grid.parameters import parameters_of
from gridveil.inference.fit import FitSettings, Observation
from gridveil.inference.fit.detailed import DetailedFitSettings
from gridveil.inference.fit.misfit import COMPARED, compared
from gridveil.inference.posterior import middle
from gridveil.privacy.epsilon import float_at_least, float_at_most
from gridveil.privacy.ledger import Ledger
from gridveil.publication.bundle import Verified
from gridveil.publication.release import PORTS, Release, neutral_names
from gridveil.publication.replay import Replay, fitted_answer, rms_mhz
from gridveil.publication.signing import KeyInfo
from gridveil.workflow.leakage import GivenAway, given_away

NOT_CHARGED = "A demo is charged to no ledger."
NO_RECORDS = "No trajectory was used: the guarantee is unconditional."
NOT_CARRIED = (
    "The bundle does not carry its records as they were used: name them with --trajectory to see "
    "what they give away."
)
OF_ITSELF = (
    "The trajectory was simulated from the grid itself, which a real release refuses: a demo's fit "
    "knows the grid by it."
)
LARGE_EPSILON = 10
MANY_CLIPPED = 0.25  # of a group's entries

Document = dict[str, Any]


@dataclass(frozen=True)
class Check:
    """A point that may stand against a release. grade : good, doubtful or bad."""

    point: str
    grade: str
    words: str


def leaving(path: Path, bundle: Verified) -> Document:
    """The exact files that leave, with their hashes, and what they are."""
    release, report, files = bundle.release, bundle.report, bundle.files
    model = release.model
    return {
        "name": shown(path.absolute().name),
        "digest": report.digest,
        "signed_by": KeyInfo(bytes.fromhex(report.signed_by), "active").id
        if report.signed_by
        else None,
        "family": release.guarantee.family,
        "machines": len(model.machines),
        "ports_for_load": len(model.ports) - len(model.machines),
        "members": release.ensemble.members if release.ensemble else 0,
        "exports": list(report.exports),
        "archive_sha256": hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None,
        "files": [
            {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in sorted(files.items())
        ],
    }


def budget(bundle: Verified, ledger: Ledger | None) -> Document:
    """ε of the grid's account before this release, after it, and now; of a ledger that does not
    know the bundle, what the certificate says.
    """
    certificate, digest = bundle.certificate, bundle.report.digest
    if certificate is None:
        return {"known": False, "words": NOT_CHARGED}
    said = {
        "epsilon": certificate.lineage_budget,
        "after": float_at_least(Fraction(certificate.lineage_spent)),
        "charged": float_at_least(bundle.release.guarantee.spent),
    }
    if ledger is None:
        words = "No ledger was found: these figures are the certificate's."
        return said | {"known": False, "words": words}
    number, head = certificate.ledger_entry, certificate.ledger_head
    entry = next((one for one in ledger.entries() if one.number == number), None)
    before = ledger.account_before(number)
    if ledger.head().ledger != head.ledger or entry is None or before is None:
        words = f"The ledger {ledger.location} does not know this bundle: these figures are the "
        return said | {"known": False, "words": f"{words}certificate's."}
    now = ledger.account(entry.lineage)
    assert now is not None, "it was charged"
    return said | {
        "known": True,
        "words": f"From the ledger {shown(ledger.location)}, account {shown(entry.lineage)}, entry "
        f"{number}.",
        "lineage": entry.lineage,
        "entry": number,
        "noted": entry.digest == digest,
        "before": float_at_least(before.spent),
        "epsilon": str(now.epsilon),
        "now": float_at_least(now.spent),
        "left": float_at_most(now.left),
        "draws": now.draws,
        "problems": ledger.verify(),
    }


def groups(release: Release, facts: GridFacts | DetailedFacts) -> list[Document]:
    """ε, α and noise of each group, the noise beside a typical public value, and how much of what
    was drawn lies on a public bound.
    """
    guarantee, declared = release.guarantee, parameters_of(release.guarantee.family)
    found = []
    for name, loss in guarantee.groups.items():
        entries = facts.sizes[name]
        one = (
            float(np.median(entries_of(facts.public)[name][0]))
            if isinstance(facts, DetailedFacts)
            else middle(release.bounds[name])
        )
        typical = one * entries if loss.mechanism.takes == "sum" else one
        deviation = loss.noise.deviation * loss.scale
        drawn, clipped = loss.mechanism.size(entries), release.clipped.get(name, 0)
        found.append(
            {
                "group": name,
                "title": declared[name].plural,
                "unit": declared[name].unit,
                "drawn": loss.mechanism.whole,
                "alpha": loss.alpha_in_words,
                "epsilon": str(loss.epsilon),
                "charged": loss.spent,
                "scale": loss.scale_in_words,
                "typical": typical,
                "deviation_percent": 100 * (deviation if loss.relative else deviation / typical)
                if typical
                else None,
                "values": drawn,
                "clipped": clipped,
                "clipped_percent": 100 * clipped / drawn if drawn else 0.0,
            }
        )
    return found


def carried_records(release: Release, facts: GridFacts | DetailedFacts) -> list[Observation]:
    """The records that a bundle carries, on the grid's own buses; none where it does not carry all
    of them as they were used.
    """
    whole = [
        replay
        for replay in release.replays
        if replay.measured is not None and not replay.estimated and replay.time_s[0] >= 0
    ]
    if isinstance(facts, DetailedFacts) or len(whole) < len(release.provenance):
        return []
    if PORTS in release.public_inputs:  # buses that share a port have no name of their own
        return []
    own = {new: old for old, new in neutral_names(facts).items()}
    return [_observation(replay, release, own) for replay in whole]


def _observation(replay: Replay, release: Release, own: dict[str, str]) -> Observation:
    event = Event.parse(replay.event, base_mva=release.model.base_mva)
    renamed = Event(
        tuple(
            replace(step, change={own[bus]: load for bus, load in step.change.items()})
            for step in event.steps
        )
    )
    buses = tuple(own[bus] for bus in replay.buses)
    assert replay.measured is not None, "it is carried"
    seen = Trajectory(
        replay.time_s, replay.measured, buses, release.model.frequency_hz, settling=float("nan")
    )
    return Observation(renamed, seen, release.provenance[replay.record - 1])


def records(
    release: Release, facts: GridFacts | DetailedFacts, observed: Sequence[Observation]
) -> Document:
    """Where the trajectories come from, and what they give away by themselves, at public values."""
    said = [record.in_words() for record in release.provenance]
    if not release.provenance:
        return {"provenance": said, "words": NO_RECORDS, "leakage": None, "gives_away": []}
    if not observed:
        of_itself = any(record.origin == "simulated" for record in release.provenance)
        words = OF_ITSELF if of_itself else NOT_CARRIED
        return {"provenance": said, "words": words, "leakage": None, "gives_away": []}
    dt_s = DetailedFitSettings().dt_s if isinstance(facts, DetailedFacts) else FitSettings().dt_s
    try:
        found = given_away(observed, facts, release.bounds, release.guarantee.adjacency, dt_s=dt_s)
    except GridveilError as error:
        found = error.problem
    if not isinstance(found, GivenAway):
        return {"provenance": said, "words": found, "leakage": None, "gives_away": []}
    known = found.leakage.known.items
    rows = [
        {
            "group": name,
            "by_bounds": entries.prior,
            "typical": entries.typical,
            "best": entries.best,
        }
        for name, entries in known.items()
    ]
    return {
        "provenance": said,
        "words": found.leakage.verdict(),
        "leakage": found.to_json(),
        "table": rows,
        "gives_away": [name for name, one in known.items() if one.typical <= GIVEN_AWAY],
    }


def fit(release: Release) -> Document | None:
    """The fit guard's verdict, and what models leave of the records; None: no fit."""
    fitted = release.fitted
    if fitted is None:
        return None
    verdict = fitted.verdict
    columns, rows = ("record", "bus", *list(COMPARED.values())[:2]), list[list[str]]()
    if fitted.misfit:
        columns = ("record", "place", "judged by", *COMPARED.values())
        rows = [
            [str(place.record), str(place.place), judged, *values]
            for place, judged, values in compared(fitted.misfit)
        ]
    for replay in release.replays:
        left = rms_mhz(replay, fitted_answer(release, replay), release.model.frequency_hz)
        rows += [
            [str(replay.record), bus, f"{own[1]:.3g}", f"{own[0]:.3g}"]
            for bus, own in zip(replay.buses, left.tolist(), strict=True)
        ]
    return {
        "grade": verdict.grade if verdict else None,
        "words": verdict.in_words() if verdict else "no guard judged this fit",
        "reasons": list(verdict.reasons) if verdict else [],
        "method": fitted.method,
        "converged": fitted.converged,
        "iterations": fitted.iterations,
        "sigma_mhz": fitted.sigma_mhz,
        "mismatch_before": fitted.mismatch_before,
        "mismatch_after": fitted.mismatch_after,
        "left_mhz": {"columns": list(columns), "rows": rows},
    }


def checks(document: Document, doubts: Sequence[str]) -> Iterator[Check]:
    """What stands for and against a release, by public facts alone.

    doubts : why the bundle may be of another grid.
    """
    yield Check(
        "bundle",
        "good",
        "it verifies: every file, sentence and figure is what gridveil writes for such a release",
    )
    if document["demo"]:
        yield Check("demo", "bad", "made with a seed: it protects nothing")
    for doubt in doubts:
        yield Check("grid", "bad", doubt)
    yield _budget_check(document["budget"], demo=document["demo"])
    if not document["demo"]:
        key = document["leaves"]["signed_by"]
        words = f"signed by the key {key}" if key else "nobody signed the bundle"
        yield Check("signature", "good" if key else "doubtful", words)
    epsilon = document["epsilon"]["joint"]
    large = Fraction(epsilon["asked"]) > LARGE_EPSILON
    yield Check(
        "epsilon",
        "doubtful" if large else "good",
        f"ε = {epsilon['asked']}" + (" hides next to nothing" if large else ""),
    )
    many = [row["group"] for row in document["epsilon"]["groups"] if _many_clipped(row)]
    words = "few noisy values lie on their public bounds"
    if many:
        words = f"much of {', '.join(many)} lies on its public bounds: the model may be poor"
    yield Check("bounds", "doubtful" if many else "good", words)
    fitted = document["fit"]
    if fitted is not None:
        yield Check("fit", "good" if fitted["grade"] == "good" else "doubtful", fitted["words"])
    if document["records"]["provenance"]:
        yield _records_check(document["records"])


def _records_check(found: Document) -> Check:
    if found["leakage"] is None:
        return Check("records", "doubtful", found["words"])
    if found["gives_away"]:
        names = ", ".join(found["gives_away"])
        words = f"they alone give {names} to {percent(GIVEN_AWAY)} or better, which no ε takes back"
        return Check("records", "doubtful", words)
    words = f"they alone give no group to {percent(GIVEN_AWAY)} or better"
    return Check("records", "good", words)


def _budget_check(spent: Document, *, demo: bool) -> Check:
    if demo or not spent["known"]:
        return Check("ledger", "good" if demo else "doubtful", spent["words"])
    if spent["problems"]:
        words = f"the ledger does not verify: {'; '.join(spent['problems'])}"
        return Check("ledger", "bad", words)
    if not spent["noted"]:
        return Check("ledger", "doubtful", "the draw is charged; no bundle like this one is noted")
    return Check("ledger", "good", f"charged and noted; ε = {spent['left']:.6g} is left")


def _many_clipped(row: Document) -> bool:
    return row["clipped"] > (MANY_CLIPPED * row["values"] if row["values"] > 1 else 0)


def verdict(found: Sequence[Check]) -> Document:
    """One line for whoever signs, from public facts alone."""
    against = {
        grade: list(dict.fromkeys(one.point for one in found if one.grade == grade))
        for grade in ("bad", "doubtful")
    }
    if against["bad"]:
        grade, words = "bad", f"Do not publish this bundle: {', '.join(against['bad'])}."
    elif against["doubtful"]:
        grade = "doubtful"
        words = f"Look at this before you sign: {', '.join(against['doubtful'])}."
    else:
        grade, words = "good", "No public fact stands against this release."
    return {"grade": grade, "words": words, "checks": [asdict(one) for one in found]}
