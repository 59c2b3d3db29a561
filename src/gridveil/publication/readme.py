"""The README inside a bundle, for whoever receives it."""

from __future__ import annotations

import re

from gridveil.dynamics.compact import Compaction
from gridveil.inference.fit.misfit import COMPARED, compared
from gridveil.privacy.guarantee import GroupLoss
from gridveil.publication.certificate import operating_point
from gridveil.publication.export import FORMATS
from gridveil.publication.release import Release
from gridveil.publication.schema import EDGES_UP_TO, ReleaseDocument

DEMO = "DEMO: made with a seed; it protects nothing and must not be taken for a real release."
NO_TRAJECTORY = "nothing: no trajectory was used"
CHECKED = "The checks saw the release, the records and public settings alone."


def readme(release: Release, document: ReleaseDocument) -> str:
    """Tell a recipient what the bundle is, how to run it, and what its guarantee means."""
    g, m = document.guarantee, document.model
    mark = f"**{DEMO}**\n\n" if release.demo else ""
    groups = "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in losses(release))
    conditions = (
        "\n".join(f"- {_plain(condition)}" for condition in g.conditional_on)
        or f"- {NO_TRAJECTORY}"
    )
    unprotected = "\n".join(f"- {item}" for item in g.not_protected)
    equations = "\n".join(document.model.equations)
    units = "\n".join(f"| `{name}` | {unit} |" for name, unit in m.units.items())
    key = "" if release.demo else "  # --key PUBLIC_KEY, from the publisher, checks who signed it"
    point = operating_point(release.guarantee.family).capitalize()
    scheme = (
        "exact integration"
        if document.reference.scheme == "exact"
        else "the trapezoidal rule, some machines only"
    )
    return f"""# A gridveil release

{mark}{what_it_is(document, chr(10))}

## Run it

With the Python package gridveil:

```
gridveil verify .{key}
gridveil simulate . --event "{document.reference.event}"
python -c "import gridveil; print(gridveil.load('.').simulate('{document.reference.event}').to_frame())"
```

`model.mat` is a MAT-file of level 5: `load model.mat` in MATLAB or Octave, `matread("model.mat")` with MAT.jl in Julia,
`scipy.io.loadmat("model.mat")` in Python. `reference.csv` is this model's own answer to `{document.reference.event}`
({document.reference.horizon_s:g} s, step {document.reference.dt_s:g} s, {scheme}): yours should agree.
`sha256sum -c SHA256SUMS` checks the files without gridveil.
{_card(document)}{_ensemble(document)}{_replay(release)}{_exports(document)}
## The model

```
{equations}
```

{m.sign_convention}
{_arrays(document)}

| quantity | unit |
|---|---|
{units}

Valid for: {document.valid_for}.
Not valid for: {document.not_valid_for}.
{_verdict(release)}{_misfit(release)}
## The guarantee

{g.in_words}

Adjacency `{g.adjacency}`, ε = {g.epsilon}, mechanism: {g.mechanism}. {point}: {g.operating_point}.

| group | α | ε | noise scale |
|---|---|---|---|
{groups}

Conditional on:
{conditions}

Not protected:
{unprotected}
"""  # noqa: E501


def what_it_is(document: ReleaseDocument, gap: str = " ") -> str:
    """What a bundle holds, in two sentences; gap : what stands in the middle of the first."""
    m = document.model
    buses = f"{len(m.loaded_buses)} loaded buses"
    if document.guarantee.hides_network:
        buses = (
            "joined each to each by one weight, and one port, L1, for load anywhere else: the "
            "grid's own network is not shown"
        )
    return (
        "A synthetic, Kron-reduced model of a power grid's frequency dynamics: "
        f"{len(m.machines)} machines{gap}({m.machines[0]} … {m.machines[-1]}), {buses}. Names are "
        "neutral and say nothing about the source."
    )


def losses(release: Release) -> list[tuple[str, str, str, str]]:
    """Of each group its name, α, ε and scale of noise, in words; of one that was not drawn, why it
    has no ε.
    """
    drawn = release.guarantee.groups
    undrawn = dict.fromkeys(release.guarantee.published, "published as it is, without noise")
    return [
        _group_row(name, drawn[name])
        if name in drawn
        else (name, "", undrawn.get(name, "nothing was drawn"), "")
        for name in release.guarantee.parameters
    ]


def _arrays(document: ReleaseDocument) -> str:
    """Say what the arrays of model.mat are."""
    m = document.model
    if (detailed := m.detailed) is not None:
        devices = ", ".join(f"{device.count} {device.model}" for device in detailed.case.devices)
        return f"""All states start at 0. `loads` lists the units first, then the loaded buses, as released; \
`uniform:+10%` adds a tenth of it from t = 0 on.
omega_b = {m.omega_b!r} rad/s, nominal frequency {m.frequency_hz:g} Hz, base {m.base_mva:g} MVA. {len(detailed.states)} states.

Beside the linear model stands a nonlinear one, {detailed.case.buses} buses with {devices}:
one array a parameter, `MODEL_parameter`, and `MODEL_unit` for the units that have one. {detailed.case.words}
{detailed.moved_words}"""  # noqa: E501
    order = (
        "of `edges` (numbered from 1)"
        if len(m.machines) <= EDGES_UP_TO
        else "1-2, 1-3, …, 2-3, 2-4, …, row by row"
    )
    loads = (
        "published in `loads`"
        if m.loads_published
        else "not published (`loads` is NaN); give events bus by bus"
    )
    uniform = "; `uniform:+10%` adds a tenth of it from t = 0 on" if m.loads_published else ""
    return f"""M, D, T and G are diagonal: `m`, `d`, `governor_rate`, `droop_gain`. L has -k_r off its diagonal and rows that sum to 0. All
states start at 0. `loads` lists the machines first, then the loaded buses{uniform}.
omega_b = {m.omega_b!r} rad/s, nominal frequency {m.frequency_hz:g} Hz, base {m.base_mva:g} MVA.
`k_r` lists the weights of the complete graph of machines in the order {order}. Nominal loads: {loads}.{_compact(document)}"""  # noqa: E501


def _compact(document: ReleaseDocument) -> str:
    """Say what a compact model leaves out."""
    stated = document.model.compact
    if stated is None:
        return ""
    told = Compaction(**stated.model_dump()).in_words()
    return f"\n`k_r` and `K_ac` are sparse matrices: {told}."


def _verdict(release: Release) -> str:
    """What the guard says of the fit; nothing where it was not asked."""
    fitted = release.fitted
    if fitted is None or fitted.verdict is None:
        return ""
    reasons = "".join(f"- {_plain(reason)}\n" for reason in fitted.verdict.reasons)
    noise = sigma_words(release)
    return f"""
## How far to trust its fit

**{fitted.verdict.in_words().capitalize()}.**{noise and " "}{noise}
{CHECKED}
{reasons and chr(10) + reasons}"""


def sigma_words(release: Release) -> str:
    """The noise that a fit counted with; nothing where it did not."""
    if release.fitted is None or release.fitted.sigma_mhz is None:
        return ""
    return f"Sensor noise and model error together: {release.fitted.sigma_mhz:.2g} mHz."


def _misfit(release: Release) -> str:
    """How near the model is to the records, beside its controls; nothing where that is not said."""
    if release.fitted is None or not release.fitted.misfit:
        return ""
    rows = "\n".join(
        f"| {place.record} | {place.place} | {judged} | {' | '.join(cells)} |"
        for place, judged, cells in compared(release.fitted.misfit)
    )
    return f"""
## How near it is to the records

Root mean square of what is left of each place's record, in mHz. Controls know of no release: public values in the
place of the grid's own, and a frequency response (one machine, five parameters), each fitted to the same records.
Held out: fitted to the first part of the records, judged by the last quarter.

| record | place | judged by | {" | ".join(COMPARED.values())} |
|---|---|---|{"---|" * len(COMPARED)}
{rows}
"""  # noqa: E501


def _plain(words: str) -> str:
    """The owner's words, which a reader of Markdown takes for nothing but words."""
    return re.sub(r"([\\`*_\[\]<>|#!&])", r"\\\1", words)


def _group_row(name: str, loss: GroupLoss) -> tuple[str, str, str, str]:
    each = "" if loss.mechanism.each == "each" else f", {loss.mechanism.each}"
    return f"{name}{each}", loss.alpha_in_words, str(loss.epsilon), loss.scale_in_words


def _card(document: ReleaseDocument) -> str:
    """Say what card.html is, where there is one."""
    if document.card is None:
        return ""
    return (
        "`card.html` shows all this in a browser, offline, with the network drawn and a simulator "
        "to try steps of load in.\n"
    )


def _ensemble(document: ReleaseDocument) -> str:
    """Say what ensemble.mat is, where there is one."""
    bars = document.ensemble
    if bars is None:
        return ""
    low, high = bars.nadir_hz
    return f"""`ensemble.mat` holds {bars.members} models that this release leaves possible, each as likely as the others; `simulate` gives
{100 * bars.level:g} % bands from them, such as {low:+.4f} to {high:+.4f} Hz for the system's nadir after the event above.
They count: {", ".join(bars.counts)}.
"""  # noqa: E501


def _replay(release: Release) -> str:
    """Say how to see the records again; nothing where the bundle keeps none."""
    if not release.replays:
        return ""
    carried = all(one.carried for one in release.replays)
    held = (
        "what was measured"
        if carried
        else "what was measured, where its licence allows that (else the SHA-256 of its files)"
    )
    return f"""
The records that the model was fitted to can be replayed: `gridveil simulate . --replay --plot ../replay.png`. `replay.json` has the
event of each, `replay.csv` {held}, and what the model gives before and after its fit.
"""  # noqa: E501


def _exports(document: ReleaseDocument) -> str:
    """List what the bundle holds for other tools, with the lines that run it; nothing where it
    holds nothing.
    """
    if not document.exports:
        return ""
    rows = "\n".join(
        f"| {', '.join(f'`{name}`' for name in one.files)} | {one.format} |"
        for one in document.exports
    )
    detailed = document.model.detailed is not None
    lines = "\n".join(FORMATS[one.format].line(detailed=detailed) for one in document.exports)
    return f"""
For other tools, the same model in their formats; an event, where one is written along, is `{document.reference.event}`:

| file | format |
|---|---|
{rows}

Copy them to a folder of their own first: some tools write beside what they read, and a bundle with more files does not verify.

```
{lines}
```
"""  # noqa: E501
