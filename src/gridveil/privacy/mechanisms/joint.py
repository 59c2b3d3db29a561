"""Joint noise: one draw, and one loss, for all parameters of an asset that a mechanism draws."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from gridveil.foundation.errors import NOTHING_SPENT, OptionError
from gridveil.grid.facts import Array, IntArray
from gridveil.privacy.mechanisms.additive import Additive
from gridveil.privacy.mechanisms.box import Box
from gridveil.privacy.mechanisms.interface import Asked, GroupLoss, Noise, Sampler


@dataclass(frozen=True)
class Joint(Additive):
    """Adds noise of the box norm to the entries of each asset, or to means over all of them.

    Privacy
    -------
    An asset's parameters may all move, each by its own distance; its row of noise is made for that,
    and no other row depends on the asset. An asset that lacks an entry has that value of its row
    thrown away, which is post-processing; which ones lack it is public.
    """

    joint = True

    def law(self, together: int, place: int = 0) -> Noise:  # noqa: ARG002
        """The box norm's, of so many values: all of them alike."""
        return Box(together)

    def calibrate(self, part: Mapping[str, Asked]) -> dict[str, GroupLoss]:
        """Calibrate every parameter for the one ε of all of them."""
        if len({asked.epsilon for asked in part.values()}) > 1:
            raise OptionError(
                f"The shares of ε of {', '.join(part)} differ.",
                expected=f"one share for all that {self.name} draws of an asset: it is spent once",
                outcome=NOTHING_SPENT,
            )
        losses = super().calibrate(part)
        return {
            name: replace(loss, together=len(part), place=place)
            for place, (name, loss) in enumerate(losses.items())
        }

    def loss(self, part: Mapping[str, GroupLoss], moved: Collection[str]) -> Fraction:
        """The one loss, however many parameters move; 0 where none does."""
        spent = (Fraction(loss.spent) for name, loss in part.items() if name in moved)
        return max(spent, default=Fraction(0))

    def draw(
        self,
        prepared: Mapping[str, Array],
        part: Mapping[str, GroupLoss],
        sampler: Sampler,
        at: Mapping[str, IntArray],
    ) -> dict[str, Array]:
        """Draw a row of noise for each asset, or one for all means."""
        for name in prepared:
            if len(np.unique(at[name])) < len(at[name]):
                raise OptionError(
                    f"An asset has two entries of {name}.",
                    expected="an asset's entries of each parameter summed into one",
                    outcome="Nothing was drawn.",
                )
        scale = np.array([part[name].scale for name in prepared])
        if self.takes in ("mean", "sum"):
            assets = {name: np.zeros(1, dtype=np.int64) for name in prepared}
        else:
            known = np.unique(np.concatenate([at[name] for name in prepared]))
            assets = {name: np.searchsorted(known, at[name]) for name in prepared}
        rows = np.zeros((1 + max(int(one.max()) for one in assets.values()), len(prepared)))
        for column, (name, values) in enumerate(prepared.items()):
            rows[assets[name], column] = values
        drawn = sampler.draw(rows, scale, self.law(len(prepared)))
        return {name: drawn[assets[name], column] for column, name in enumerate(prepared)}


ON_ASSETS = Joint("box", Box(), "items", "each, jointly with its asset's others", "every item")
ON_ASSET_MEANS = Joint(
    "box-means", Box(), "mean", "their mean, jointly with other means", "their mean"
)
