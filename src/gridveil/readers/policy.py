"""What to do with awkward data: each choice declared, applied in one place, counted in
`inspect`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args, get_type_hints

from gridveil.foundation.errors import OptionError

NegativeX = Literal["refuse", "abs", "merge"]
ZeroX = Literal["refuse", "merge"]
Taps = Literal["include", "ignore"]
WithoutDynamics = Literal["refuse", "drop"]
ZERO_X = (
    1e-6  # p.u.; below it a branch is a bus tie: its weight would lie far above any public bound
)


@dataclass(frozen=True)
class Policy:
    """Choices for awkward data.

    negative_x : a branch with x < 0 (series capacitor, winding of an equivalent star): refuse the
    file, use |x| in k, or merge its two buses. The power flow keeps the sign.
    zero_x : a branch with |x| below 1e-6 p.u.: refuse the file, or merge its two buses.
    island : "" refuses a grid in several islands; "largest" keeps the one with most buses; a bus
    keeps the one it lies in.
    taps : whether k = v_i v_j cos(δ_i − δ_j − φ) / (t x) includes the tap ratio t of transformers.
    without_dynamics : a machine for which neither file nor settings give inertia: refuse, or drop
    it (its bus stays).

    Which buses are merged and which island is kept is topology, hence public: a release does not
    protect it.
    """

    negative_x: NegativeX = "refuse"
    zero_x: ZeroX = "refuse"
    island: str = ""
    taps: Taps = "include"
    without_dynamics: WithoutDynamics = "refuse"

    def __post_init__(self) -> None:
        for f in fields(self):
            if expected := unusable(f.name, getattr(self, f.name)):
                raise OptionError(f"the policy {f.name} is not usable", expected=expected)


POLICIES = tuple(f.name for f in fields(Policy))


def unusable(name: str, value: object) -> str:
    """Say what a policy may be, if a value is not among it; else nothing."""
    choices = get_args(get_type_hints(Policy)[name])
    if isinstance(value, str) and (not choices or value in choices):
        return ""
    return f"one of {', '.join(choices)}" if choices else "text: largest, or a bus"
