"""The demo: Algorithm 1 from end to end on a public case, with a seed, beside the truth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import get_args

import numpy as np

from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import reduce
from gridveil.dynamics.simulate import simulate
from gridveil.dynamics.trajectory import Trajectory
from gridveil.foundation.archive import check_free
from gridveil.foundation.arguments import of_type, one_of, takes, whole
from gridveil.foundation.errors import OptionError
from gridveil.foundation.progress import RELEASE, staged
from gridveil.inference.fit import Observation
from gridveil.planning.profiles import PROFILES, ProfileName
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.epsilon import Exact, exact
from gridveil.privacy.provenance import Provenance
from gridveil.publication.bundle import Report, write
from gridveil.publication.release import Release
from gridveil.readers.cases import BUNDLED, open_grid
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.truth import true_model
from gridveil.workflow.foresee import Foreseen, foresee
from gridveil.workflow.publish import publish
from gridveil.workflow.release import Dialogue, prepare
from gridveil.workflow.settings import ReleaseSettings

# The paper's public trajectory.
PUBLIC_EVENT, PUBLIC_EVENT_IN_WORDS = Event.uniform(0.2), "+20 % load at every bus"


@dataclass(frozen=True, eq=False)
class Demo:
    """A demo release, with the source's, the noisy and the fitted frequency at every machine after
    the same event.
    """

    release: Release
    source: Trajectory
    noisy: Trajectory
    fitted: Trajectory


@takes(
    outcome="Nothing was read, drawn or written.",
    grid=of_type(str, " or ".join(BUNDLED)),
    epsilon=exact,
    profile=one_of(get_args(ProfileName)),
    seed=whole("a whole number of 0 or more"),
)
def run_demo(
    grid: str = "ieee30",
    *,
    epsilon: Exact = Fraction(1, 2),
    profile: ProfileName = "default",
    seed: int = 1,
) -> Demo:
    """Simulate a "public" trajectory from the case, perturb, reduce and fit.

    A demo for ever: seed and truth are known.
    """
    chosen = PROFILES[profile]
    if grid not in BUNDLED:  # a demo shows the truth beside its release
        raise OptionError(
            f"A demo runs on {' or '.join(BUNDLED)} only: it publishes what the grid's own "
            "frequency does.",
            outcome="Nothing was read, drawn or written.",
            remedy="Use `gridveil release` for a grid of your own.",
        )
    source = open_grid(grid)
    truth = true_model(source)
    clock = {"horizon_s": 30.0, "dt_s": chosen.settings.dt_s, "scheme": chosen.settings.scheme}
    trajectory = simulate(truth, PUBLIC_EVENT, **clock)
    observed = [
        Observation(
            PUBLIC_EVENT, trajectory, Provenance("simulated", "the case's own answer to +20 % load")
        )
    ]
    settings = {
        "epsilon": epsilon,
        "adjacency": Adjacency(chosen.rule),
        "bounds": chosen.bounds,
        "ledger": None,
    }
    fit = {"settings": chosen.settings, "start": chosen.start}
    release = publish(source, observed, **settings, **fit, sampler=DemoSampler(seed))
    noisy = reduce(
        perturb(source, **settings, sampler=DemoSampler(seed))
    )  # the same seed: step 2 of the same release
    return Demo(
        release,
        source=trajectory,
        noisy=simulate(noisy, PUBLIC_EVENT, **clock),
        fitted=release.simulate(PUBLIC_EVENT, **clock),
    )


def foresee_demo(settings: ReleaseSettings) -> Foreseen:
    """Check a demo as `demo_release` does, and say what it would draw and publish."""
    return foresee(settings, sampler=DemoSampler(1))


def demo_release(settings: ReleaseSettings, dialogue: Dialogue, seed: int = 1) -> Report:
    """Make what `release_grid` would make of these settings, with a seed: a demo for ever, which no
    ledger is charged for and no key signs.
    """
    check_free(settings.out)
    prepared = prepare(settings, dialogue, dry=True, sampler=DemoSampler(seed))
    with staged(RELEASE):
        return write(replace(prepared.make(), ledger=None), settings.out, None, settings.formats)


def write_demo_record(folder: Path) -> Path:
    """Write a record for a demo: ieee30's own answer to +20 % load at every other machine, with
    noise of a public seed, and the TOML that declares it, which says so.
    """
    truth = simulate(true_model(open_grid("ieee30")), PUBLIC_EVENT, horizon_s=30.0, dt_s=0.1)
    at = range(0, len(truth.buses), 2)
    noise = np.random.default_rng(1).normal(0.0, 5e-4, (len(truth.time_s), len(at)))
    hz = truth.deviation_hz[:, list(at)] + noise
    rows = [
        ",".join(f"{v:.6g}" for v in (t, *row)) for t, row in zip(truth.time_s, hz, strict=True)
    ]
    names = [truth.buses[place] for place in at]
    header = ",".join(["time_s", *(f"bus {name}" for name in names)])
    (folder / "demo-record.csv").write_bytes("\n".join([header, *rows, ""]).encode())
    place = folder / "demo-record.toml"
    declared = _DEMO_TOML + "".join(f'"bus {n}" = "{n}"\n' for n in names)
    place.write_bytes(declared.encode())
    return place


_DEMO_TOML = """\
# A demo's record: simulated from ieee30 itself, so that it serves demos alone.
record = "demo-record.csv"
time_column = "time_s"
time_format = "seconds"
unit = "Hz"
values = "deviation"
nominal_hz = 60.0
offset = "none"
event = "uniform:+20%@0s"
sigma = 0.0005
redistribute = true

[provenance]
origin = "simulated"
source = "gridveil studio --demo: ieee30's own answer to +20 % load"

[locations]
"""


def worst_error_mhz(demo: Demo) -> tuple[float, float]:
    """Largest distance from the source's frequency, noisy and fitted [mHz]."""
    to_mhz = 1e3 * demo.source.frequency_hz
    return tuple(
        float(np.abs(trajectory.omega - demo.source.omega).max() * to_mhz)
        for trajectory in (demo.noisy, demo.fitted)
    )  # pyright: ignore[reportReturnType]
