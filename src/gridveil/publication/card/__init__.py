"""The public card: one page that shows a release, offline, to whoever has the bundle.

It says what the documents beside it say, in their words, draws the released network, and simulates
steps of load in the page from the numbers of model.mat and ensemble.mat.

Privacy
-------
Made of the release and its documents alone: post-processing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

import numpy as np

from gridveil.foundation.page import standalone, text
from gridveil.inference.fit.guard import Verdict
from gridveil.publication.card.facts import ALL_BANDS, SOME_BANDS, simulator_facts
from gridveil.publication.card.network import network_svg
from gridveil.publication.certificate import (
    CertificateDocument,
    odds_in_words,
    operating_point,
    spent_in_words,
)
from gridveil.publication.readme import (
    CHECKED,
    DEMO,
    NO_TRAJECTORY,
    losses,
    sigma_words,
    what_it_is,
)
from gridveil.publication.release import Release
from gridveil.publication.schema import ReleaseDocument

CARD = "card.html"
# Of the page's bytes: one more whenever a release would give others.
CARD_VERSION = 2
SCRIPTS = ("swing.js", "matrices.js", "answers.js", "drawing.js", "card.js")
OF_A_GROUP = ("group", "α", "ε", "noise scale")
SOME_HAVE_BANDS = f"; here for the system and the {SOME_BANDS} machines of most inertia"

FORM = """<form id="event" class="controls" autocomplete="off">
<div><label for="kind">What happens</label><select id="kind"></select></div>
<div><label for="bus">Bus</label><select id="bus"></select></div>
<div id="sizes"><label for="size">Size</label><span class="pair"><input id="size" type="number"
step="any" inputmode="decimal"><select id="unit" aria-label="Unit of the size">
<option value="mw">MW</option><option value="pu">p.u.</option></select></span></div>
<div><label for="horizon">Until</label><select id="horizon"><option value="10">10 s</option>
<option value="30" selected>30 s</option><option value="60">60 s</option></select></div>
<div><label for="shown">Highlight</label><select id="shown"></select></div>
</form>
<p id="status" role="status" class="quiet">Starting …</p>
<div id="chart"></div>
<p id="legend" class="legend"></p>
<div class="figures wide" role="region" aria-label="Figures of each bus" tabindex="0">
<table id="figures">
<caption class="unseen">Nadir, rate of change of frequency and settling value of each bus</caption>
<thead></thead><tbody></tbody></table></div>
"""


def card_page(
    release: Release, document: ReleaseDocument, certificate: CertificateDocument | None
) -> str:
    """Write the card of a release: a whole HTML page that needs nothing beside it.

    document, certificate : what release.json and certificate.json of its bundle say; a demo has no
    certificate. The same arguments give the same bytes on every machine.
    """
    count = len(document.model.machines)
    title = f"A gridveil release of {count} machines" + (" (DEMO)" if release.demo else "")
    facts = simulator_facts(release)
    demo = f'<p class="panel bad demo"><strong>{text(DEMO)}</strong></p>' if release.demo else ""
    body = f"""<main>
{demo}
<h1>{text(title)}</h1>
<p>{text(what_it_is(document))}</p>
{_simulator(document, facts)}
{_network(release)}
{_guarantee(release, document, certificate)}
{_validity(release, document)}
{_check(document)}
</main>
{_data(facts)}"""
    script = "" if isinstance(facts, str) else "".join(map(_own, SCRIPTS))
    return standalone(title, body, style=_own("card.css"), script=script)


@cache
def _own(name: str) -> str:
    """A file of the card's style or script."""
    return files("gridveil.publication.card").joinpath(name).read_text(encoding="utf-8")


def _data(facts: object) -> str:
    """What the script reads: JSON in a block that is not run, without a sign that could end it."""
    if isinstance(facts, str):
        return ""
    data = json.dumps(facts, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="facts">{data}</script>'


def _simulator(document: ReleaseDocument, facts: object) -> str:
    command = (
        f'<pre><code id="command">gridveil simulate . --event "{text(document.reference.event)}"'
    )
    if isinstance(facts, str):
        return f"""<section aria-labelledby="try"><h2 id="try">Try it</h2>
<p>{text(facts)} With the Python package gridveil, beside this file:</p>
{command}</code></pre></section>"""
    bars = document.ensemble
    told = (
        f"Bands: where the answer lies with {100 * bars.level:g} % probability, from "
        f"{bars.members} models that this release leaves possible"
        + ("" if len(document.model.machines) <= ALL_BANDS else SOME_HAVE_BANDS)
        + f". They count: {', '.join(bars.counts)}. The figure before a band is the released "
        "model's own answer; it is not the band's middle, and may lie outside it."
        if bars
        else "This release has no error bars."
    )
    return f"""<section aria-labelledby="try">
<h2 id="try">Try it</h2>
<p>A lasting step at 1 s, from rest. The page computes it from the released model, here.</p>
{FORM}<p class="quiet">Nadir: largest deviation from {document.model.frequency_hz:g} Hz. RoCoF: \
steepest mean slope over 0.5 s. System: mean of the machines, by inertia. {text(told)}</p>
<p>The same with the Python package gridveil, beside this file:</p>
{command}</code></pre>
<noscript><p class="panel">The simulator needs JavaScript. All else here does not.</p></noscript>
</section>"""


def _network(release: Release) -> str:
    words = (
        "<p>Topology mode: every machine is joined to every other by one and the same weight, so "
        "that nothing of the grid's own network shows.</p>"
        if release.guarantee.hides_network
        else ""
    )
    return f"""<section aria-labelledby="network"><h2 id="network">The released network</h2>
{words}{network_svg(release)}</section>"""


def _guarantee(
    release: Release, document: ReleaseDocument, certificate: CertificateDocument | None
) -> str:
    g = document.guarantee
    point = operating_point(release.guarantee.family).capitalize()
    rows = "".join(
        f'<tr><th scope="row">{text(group)}</th>'
        + "".join(
            f'<td data-label="{label}">{text(cell)}</td>'
            for label, cell in zip(OF_A_GROUP[1:], cells, strict=True)
        )
        + "</tr>"
        for group, *cells in losses(release)
    )
    heads = "".join(f'<th scope="col">{label}</th>' for label in OF_A_GROUP)
    sums = (
        f"<p>{text(odds_in_words(certificate))} {text(spent_in_words(certificate))}</p>"
        if certificate
        else ""
    )
    return f"""<section aria-labelledby="guarantee"><h2 id="guarantee">The guarantee</h2>
<p class="big">ε = {text(g.epsilon)}</p>
<p>{text(g.in_words)}</p>
{sums}
<p>Adjacency <code>{text(g.adjacency)}</code>, mechanism: {text(g.mechanism)}. {text(point)}: \
{text(g.operating_point)}.</p>
<div class="wide" role="region" aria-label="Noise of each group" tabindex="0"><table>
<thead><tr>{heads}</tr></thead>
<tbody>{rows}</tbody></table></div>
<h3>Conditional on</h3>
{_listed(g.conditional_on or (NO_TRAJECTORY,))}
<h3>Not protected</h3>
{_listed(g.not_protected)}</section>"""


def _validity(release: Release, document: ReleaseDocument) -> str:
    return f"""<section aria-labelledby="valid"><h2 id="valid">What it is good for</h2>
<p>Valid for: {text(document.valid_for)}.</p>
<p>Not valid for: {text(document.not_valid_for)}.</p>
<p>{text(_held(release))}</p>
{_verdict(release)}</section>"""


def _held(release: Release) -> str:
    """The largest deviation that the model was compared with."""
    hz = release.model.frequency_hz
    peaks = [
        1000 * hz * float(np.nanmax(np.abs(replay.measured)))
        for replay in release.replays
        # what may not be passed on is in no file of the bundle
        if replay.carried and replay.measured is not None and np.isfinite(replay.measured).any()
    ]
    if not peaks:
        return "No record in this bundle shows up to which deviation it holds."
    return (
        f"Largest deviation in the records that it was fitted to: {max(peaks):.3g} mHz. Nothing "
        "here shows that it holds beyond."
    )


def _verdict(release: Release) -> str:
    verdict: Verdict | None = release.fitted.verdict if release.fitted else None
    if verdict is None:
        return ""
    look = {"good": "good", "doubtful": "doubtful", "discarded": "bad"}[verdict.grade]
    return f"""<h3>How far to trust its fit</h3>
<p><strong class="{look}">{text(verdict.in_words().capitalize())}.</strong> \
{text(sigma_words(release))} {text(CHECKED)}</p>
{_listed(verdict.reasons)}"""


def _check(document: ReleaseDocument) -> str:
    signed = "" if document.demo else " --key PUBLIC_KEY"
    return f"""<section aria-labelledby="check"><h2 id="check">Check it</h2>
<p>Anyone can write a page like this. With the Python package gridveil, in the bundle's folder, \
this line checks every file, and that this page is what gridveil writes for such a release:</p>
<pre><code>gridveil verify .{signed}</code></pre></section>"""


def _listed(items: Iterable[str]) -> str:
    listed = "".join(f"<li>{text(item)}</li>" for item in items)
    return f"<ul>{listed}</ul>" if listed else ""
