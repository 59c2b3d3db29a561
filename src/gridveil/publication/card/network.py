"""The released network as a drawing: SVG, made of the bundle's own numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gridveil.dynamics.models import ReducedModel
from gridveil.foundation.page import text
from gridveil.grid.facts import Array, IntArray, complete_edges
from gridveil.publication.card.layout import lengths, places
from gridveil.publication.release import Release

# Buses up to which each has its label, lines that are drawn at most, and buses: the largest.
LABELLED, MOST_LINES, MOST_BUSES = 60, 300, 400
LINES_A_BUS = 2  # of more than LABELLED
LABELS_OF_MANY = 10
LEAST_IMPEDANCE = 1e-9  # p.u.; a branch of none
# Of a drawing of few buses, which fits a telephone; of more, on a screen and on a telephone, where
# it grows downward with each bus.
FEW, SMALL_BOX, BOX, NARROW, LEAST_TALL, A_BUS, MARGIN = (
    12,
    (290, 220),
    (600, 400),
    276,
    360,
    12,
    28,
)
APART, APART_OF_MANY = 42, 12
# Widths of lines: of those stronger than these shares of the strongest.
WIDTHS = (0.5, 0.2, 0.05)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """What is drawn. names : of buses; machine : whether one stands there; size : what the largest
    are known by; edges : (e, 2); weights : (e,).
    """

    names: tuple[str, ...]
    machine: tuple[bool, ...]
    size: Array
    edges: IntArray
    weights: Array
    words: str


def network_svg(release: Release) -> str:
    """Draw the machines and the lines between them, the strongest lines widest."""
    with np.errstate(all="ignore"):  # weights may lie any distance apart
        return _svg(_drawn(release))


def _svg(drawn: _Drawn) -> str:
    count = len(drawn.names)
    if count > MOST_BUSES:
        return f"<p>{text(drawn.words)} That is too many to draw.</p>"
    many = count > LABELLED
    tall = LEAST_TALL if many else max(LEAST_TALL, A_BUS * count)
    looks = {"": SMALL_BOX} if count <= FEW else {"broad": BOX, "narrow": (NARROW, tall)}
    order = np.argsort(-drawn.weights, kind="stable")
    shown = order[: LINES_A_BUS * count if many else MOST_LINES]
    shown = shown[drawn.weights[shown] > 0]
    left = len(drawn.weights[drawn.weights > 0]) - len(shown)
    words = drawn.words + (
        f" The {len(shown)} strongest lines are drawn, {left} weaker ones are not." if left else ""
    )
    far = lengths(count, drawn.edges, drawn.weights)
    drawings = []
    for look, box in looks.items():
        where = places(far, box, APART_OF_MANY if many else APART) + MARGIN
        buses = _many(drawn, where) if many else _each(drawn, where)
        drawings.append(
            f'<svg class="{look}" viewBox="0 0 {box[0] + 2 * MARGIN} {box[1] + 2 * MARGIN}" '
            f'role="img" aria-label="{text(words)}">{_lines(drawn, where, shown)}{buses}</svg>'
        )
    return (
        f'<figure class="network{" few" if count <= FEW else ""}">{"".join(drawings)}'
        f"<figcaption>{text(words)}</figcaption></figure>"
    )


def _lines(drawn: _Drawn, where: IntArray, shown: IntArray) -> str:
    """The lines that are shown, the strongest last and widest."""
    top = drawn.weights.max(initial=0.0)
    return "".join(
        f'<line class="w{sum(drawn.weights[e] <= share * top for share in WIDTHS)}" '
        f'x1="{where[i, 0]}" y1="{where[i, 1]}" x2="{where[j, 0]}" y2="{where[j, 1]}"/>'
        for e in shown[::-1]
        for i, j in [drawn.edges[e]]
    )


def _drawn(release: Release) -> _Drawn:
    model = release.model
    if isinstance(model, ReducedModel):
        return _swing(model)
    assert release.shown is not None, "a detailed release shows a case"
    case = release.shown.case
    units: dict[int, list[str]] = {}
    for unit, bus in zip(model.machines, case.units.bus.tolist(), strict=True):
        units.setdefault(bus, []).append(unit)
    z = case.branches.series
    far = np.maximum(np.sqrt(z.real * z.real + z.imag * z.imag), LEAST_IMPEDANCE)
    size = np.zeros(len(case.buses))
    for bus, own in units.items():
        size[bus] = len(own)
    return _Drawn(
        tuple(
            "+".join(units[bus][:2]) + ("+…" if len(units[bus]) > 2 else "")
            if bus in units
            else name
            for bus, name in enumerate(case.buses)
        ),
        tuple(bus in units for bus in range(len(case.buses))),
        size,
        case.branches.ends,
        1 / far,
        f"The released case: {len(case.buses)} buses with {model.units} units, G1 to "
        f"{model.machines[-1]}. A wide line is a strong one, by its admittance; where buses stand "
        "on the page follows from that alone.",
    )


def _swing(model: ReducedModel) -> _Drawn:
    g = len(model.machines)
    kept = np.sort(np.argsort(-model.inertia, kind="stable")[:MOST_BUSES])
    pairs = complete_edges(len(kept))
    i, j = kept[pairs].T
    ports = len(model.ports) - g
    many = "ports for load are" if ports > 1 else "port for load is"
    felt = f" {ports} {many} felt by the machines, and not drawn." if ports else ""
    some = f" The {MOST_BUSES} with the most inertia are drawn." if len(kept) < g else ""
    return _Drawn(
        tuple(model.machines[i] for i in kept),
        (True,) * len(kept),
        model.inertia[kept],
        pairs,
        model.k_r[i * g - i * (i + 1) // 2 + j - i - 1],
        f"The released network, reduced to its {g} machines.{some} A wide line is a strong one, by "
        f"its weight in p.u. power per rad; where machines stand on the page follows from that "
        f"alone.{felt}",
    )


def _each(drawn: _Drawn, where: IntArray) -> str:
    """Every bus with its label inside."""
    marks = []
    for name, machine, (x, y) in zip(drawn.names, drawn.machine, where, strict=True):
        half = max(14, 4 * len(name) + 4)
        marks.append(
            f'<g class="{"machine" if machine else "bus"}"><rect x="{x - half}" y="{y - 11}" '
            f'width="{2 * half}" height="22" rx="11"/>'
            f'<text x="{x}" y="{y + 4}">{text(name)}</text></g>'
        )
    return "".join(marks)


def _many(drawn: _Drawn, where: IntArray) -> str:
    """Every bus as a dot, the largest with labels beside them that hide no other label."""
    dots = "".join(
        f'<circle class="{"machine" if machine else "bus"}" cx="{x}" cy="{y}" r="4"/>'
        for machine, (x, y) in zip(drawn.machine, where, strict=True)
    )
    taken: list[tuple[int, int, int, int]] = []
    labels = []
    for i in np.argsort(-drawn.size, kind="stable")[:LABELS_OF_MANY]:
        name, (x, y) = drawn.names[i], where[i].tolist()
        wide = 8 * len(name) + 8
        for dx, dy in ((0, -14), (0, 14), (wide // 2 + 8, 0), (-wide // 2 - 8, 0), (0, -30)):
            own = (x + dx - wide // 2, y + dy - 9, x + dx + wide // 2, y + dy + 9)
            if not any(_overlap(own, other) for other in taken):
                taken.append(own)
                labels.append(
                    f'<g class="name"><rect x="{own[0]}" y="{own[1]}" width="{wide}" height="18" '
                    f'rx="9"/><text x="{x + dx}" y="{y + dy + 4}">{text(name)}</text></g>'
                )
                break
    return dots + "".join(labels)


def _overlap(one: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
