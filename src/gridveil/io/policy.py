"""What to do with awkward data: each choice declared, applied in one place, counted in `inspect`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args, get_type_hints

from gridveil.errors import OptionError

NegativeX = Literal["refuse", "abs", "merge"]
ZeroX = Literal["refuse", "merge"]
Taps = Literal["include", "ignore"]
WithoutDynamics = Literal["refuse", "drop"]
ZERO_X = 1e-6  # p.u.; below it a branch is a bus tie: its weight would lie far above any public bound


@dataclass(frozen=True)
class Policy:
    """Choices for awkward data.

    negative_x : a branch with x < 0 (series capacitor, winding of an equivalent star): refuse the file, use |x| in k, or merge
        its two buses. The power flow keeps the sign.
    zero_x : a branch with |x| below 1e-6 p.u.: refuse the file, or merge its two buses.
    island : "" refuses a grid in several islands; "largest" keeps the one with most buses; a bus keeps the one it lies in.
    taps : whether k = v_i v_j cos(δ_i − δ_j − φ) / (t x) includes the tap ratio t of transformers.
    without_dynamics : a machine for which neither file nor settings give inertia: refuse, or drop it (its bus stays).

    Which buses are merged and which island is kept is topology, hence public: a release does not protect it.
    """

    negative_x: NegativeX = "refuse"
    zero_x: ZeroX = "refuse"
    island: str = ""
    taps: Taps = "include"
    without_dynamics: WithoutDynamics = "refuse"

    def __post_init__(self) -> None:
        hints = get_type_hints(Policy)
        for f in fields(self):
            value, choices = getattr(self, f.name), get_args(hints[f.name])
            if not isinstance(value, str) or (choices and value not in choices):
                shown = f"one of {', '.join(choices)}" if choices else "text: largest, or a bus"
                raise OptionError(f"the policy {f.name} is not usable", expected=shown)


POLICIES = tuple(f.name for f in fields(Policy))
