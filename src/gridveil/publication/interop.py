"""A release in other Python packages: python-control, SciPy, ANDES, pandas.

All but ANDES get one linear model, with the same names in each. Inputs are loads, `P_G1` …
[p.u. power]; outputs are frequency deviations, `f_G1` … [Hz]. A detailed model also has the inputs
`Q_G1` … [p.u. power] and the outputs `v_G1` … [p.u. voltage].
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gridveil.foundation.errors import GridveilError

if TYPE_CHECKING:
    import pandas as pd
    from scipy.signal import StateSpace

    from gridveil.dynamics.events import Event
    from gridveil.publication.release import Release


class InTools:
    """What a release becomes in other packages; `Release` has these methods from here."""

    def to_control(self) -> Any:
        """The linear model as a `control.StateSpace`, with named signals; needs the extra control.

        >>> import gridveil
        >>> system = gridveil.run_demo("star5").release.to_control()
        >>> system.input_labels
        ['P_G1', 'P_G2', 'P_G3', 'P_G4', 'P_L1']
        >>> float(system.dcgain()[0, 0]) < 0  # more load, less frequency [Hz / p.u. power]
        True
        """
        from gridveil.publication.export.linear import Linear

        control, own = _needed("control", "control"), Linear.of(cast("Release", self))
        names = {
            kind: [signal.name for signal in getattr(own, kind)]
            for kind in ("states", "inputs", "outputs")
        }
        return control.ss(own.A, own.B, own.C, own.D, **names)

    def to_scipy(self) -> StateSpace:
        """The linear model as a `scipy.signal.StateSpace`; its signals are in the order of
        `to_pandas()`.

        >>> import gridveil
        >>> import numpy as np
        >>> from scipy.signal import lsim
        >>> times, loads = np.arange(0, 2, 0.01), np.tile([0.1, 0, 0, 0, 0], (200, 1))
        >>> _, hz, _ = lsim(gridveil.run_demo("star5").release.to_scipy(), loads, times)
        >>> hz.shape
        (200, 5)
        """
        from scipy.signal import StateSpace

        from gridveil.publication.export.linear import Linear

        own = Linear.of(cast("Release", self))
        return StateSpace(own.A, own.B, own.C, own.D)

    def to_pandas(self) -> dict[str, pd.DataFrame]:
        """Machines, lines and the matrices A, B, C, D as tables, units in the `attrs` of each.

        >>> import gridveil
        >>> tables = gridveil.run_demo("star5").release.to_pandas()
        >>> list(tables)
        ['machines', 'lines', 'A', 'B', 'C', 'D']
        >>> tables["C"].loc["f_G1", "x_omega_G1"]  # Hz in a p.u.
        np.float64(60.0)
        >>> tables["C"].attrs["units"]["f_G1"]
        'Hz'
        """
        import pandas as pd

        from gridveil.publication.export.linear import Linear

        release = cast("Release", self)
        tables = {"machines": release.machines, "lines": release.lines}
        for name, (matrix, *sides) in Linear.of(release).matrices().items():
            rows, columns = sides
            index, heads = (pd.Index([signal.name for signal in side]) for side in sides)
            tables[name] = pd.DataFrame(matrix, index=index, columns=heads)
            tables[name].attrs["units"] = {one.name: one.unit for one in (*rows, *columns)}
        return tables

    def to_andes(self, event: Event | str | None = None) -> Any:
        """The release as an ANDES system in memory, set up and ready to run; needs the extra andes.

        event : of a swing release, by default the bundle's reference event; a detailed one carries
        none.

        >>> import gridveil
        >>> release = gridveil.run_demo("star5").release
        >>> system = release.to_andes("load:G1=+0.1@1s")  # doctest: +SKIP
        >>> system.PFlow.run() and system.TDS.run()  # doctest: +SKIP
        True
        """
        from tempfile import TemporaryDirectory

        from gridveil.publication.export import export

        andes = _needed("andes", "andes")
        ((name, content),) = export(cast("Release", self), "andes", event).items()
        # ANDES takes settings from a file alone, and never looks at it again.
        with TemporaryDirectory(prefix="gridveil-andes-") as folder:
            case = Path(folder, name)
            case.write_bytes(content)
            system = andes.load(str(case), no_output=True, default_config=True)
        if system is None:
            raise GridveilError(
                "ANDES does not take the release.",
                outcome="No system was made.",
                remedy="Its own messages say why; ANDES 2.0 or newer is needed.",
            )
        return system


def _needed(package: str, extra: str) -> Any:
    """Import a package, or name the extra of gridveil that brings it."""
    try:
        return import_module(package)
    except ImportError:
        raise GridveilError(
            f"The package {package} is not installed; the extra {extra} of gridveil brings it.",
            outcome="Nothing was made.",
            remedy=f"pip install 'gridveil[{extra}]'",
        ) from None
