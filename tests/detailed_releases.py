"""A private grid with its devices as a file, in several tables with the same public facts, and
releases of it.
"""

import json
from fractions import Fraction

import numpy as np

from gridveil.privacy.ledger import Ledger
from gridveil.readers.cases import open_grid
from gridveil.vault.sampler import DemoSampler
from gridveil.workflow.detailed import publish_detailed
from psse_helpers import ANDES

HALF = Fraction(1, 2)
FILE = "private.json"
# Tables of the file, and what of them stays as it is: names, structure and modes.
STRUCTURE = {
    "Line": {"bus1", "bus2", "Sn", "fn", "Vn1", "Vn2", "trans", "xcoord", "ycoord", "owner"},
    "PQ": {"bus", "Vn", "owner"},
    "PV": {"bus", "busr", "Vn"},
    "Slack": {"bus", "busr", "Vn"},
    "GENROU": {"bus", "gen", "coi", "coi2", "Vn", "fn", "gammap", "gammaq"},
    "TGOV1": {"syn", "Tn", "wref0"},
    "EXDC2": {"syn"},
    "IEEEST": {"avr", "busr", "busf", "MODE"},
}
NAMED = {"idx", "u", "name"}
# Columns of a row that move together, so that reactances keep their order and two points of a
# saturation curve lie apart.
TOGETHER = {
    **dict.fromkeys(("xl", "xd", "xd1", "xd2", "xq", "xq1", "xq2"), "reactance"),
    **dict.fromkeys(("E1", "E2"), "field"),
    **dict.fromkeys(("SE1", "SE2"), "saturation"),
    **dict.fromkeys(("S10", "S12"), "saturation"),
}


def write_private(folder, seed=0, same=None):
    """Write two areas with exciters, governors and a stabiliser; every seed but 0 has other values
    of all that is private, and the same public facts.

    same : columns by table that stay as they are besides, such as {"Line": {"x"}}.
    """
    document = json.loads((ANDES / "kundur" / "kundur_ieeest.json").read_text())
    random = np.random.default_rng(seed)
    for table, fixed in STRUCTURE.items() if seed else ():
        for row in document[table]:
            factors = {}
            for name, value in row.items():
                kept = fixed | NAMED | (same or {}).get(table, set())
                if name in kept or not isinstance(value, (int, float)):
                    continue
                factor = factors.setdefault(TOGETHER.get(name, name), random.uniform(0.8, 1.25))
                row[name] = value * factor
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(json.dumps(document))
    return folder / FILE


def detailed(name="andes:kundur"):
    return open_grid(str(name), model="detailed")


def demo(name="andes:kundur", seed=1, **settings):
    """A release from a seed, without error bars unless they are asked for."""
    given = {"epsilon": HALF, "ledger": None, "sampler": DemoSampler(seed), "error_bars": False}
    given |= settings
    return publish_detailed(detailed(name), **given)


def charged(folder, name="andes:kundur", **settings):
    """A real release, with a ledger in the folder."""
    ledger = Ledger(folder / "ledger.sqlite")
    return publish_detailed(detailed(name), epsilon=HALF, ledger=ledger, **settings)


class Counting(DemoSampler):
    """A seeded sampler that keeps the shapes of what it was asked to draw."""

    def __init__(self, seed):
        super().__init__(seed)
        self.shapes = []

    def draw(self, values, scale, noise):
        self.shapes.append(values.shape)
        return super().draw(values, scale, noise)
