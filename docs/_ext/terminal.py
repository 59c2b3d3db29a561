"""What a tutorial's kernel runs first: `%%bash` shows all that a terminal would, in its order.

IPython's own shows it in pieces, errors apart, and asks for colours.
"""

import os
import subprocess

from IPython.core.magic import register_cell_magic


@register_cell_magic
def bash(line: str, cell: str) -> None:
    """Run the lines of a cell; one that fails fails the page."""
    del line
    quiet = {key: value for key, value in os.environ.items() if "COLOR" not in key}
    done = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", cell],
        check=False,
        env=quiet | {"NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    print(done.stdout, end="")
    done.check_returncode()
