"""How the site is built from these pages: `make docs`. It asks nothing of the network."""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

# Tutorials run commands: ours, with ledgers and keys in a place that is thrown away.
_home = tempfile.mkdtemp(prefix="gridveil-docs-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ["GRIDVEIL_HOME"] = _home
os.environ["GRIDVEIL_WITNESS"] = f"{_home}/witness.sqlite"
os.environ.pop("GRIDVEIL_LEDGER", None)
os.environ |= {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
# The kernel that runs them: no profile of the user's, and no word on how it talks to this process.
_profile = Path(_home, "ipython", "profile_default")
_profile.joinpath("startup").mkdir(parents=True)
_profile.joinpath("ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 40\n")
shutil.copy(HERE / "_ext" / "terminal.py", _profile / "startup")
os.environ["IPYTHONDIR"] = f"{_home}/ipython"

from pygments.lexers.special import TextLexer  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402

import gridveil  # noqa: E402 - below the home, which it reads

project = "gridveil"
author = "The gridveil developers"
project_copyright = author
version = release = gridveil.__version__
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "pages",
    "docstrings",
    "glossed",
    "cells",
    "mathml",
]
# A heading is reached by its words, as on the pages of a code host.
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]

nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE.parent / "build" / "docs-cache")
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True

autodoc_typehints = "none"
autodoc_member_order = "bysource"
toc_object_entries = False
default_role = "code"

html_theme = "pydata_sphinx_theme"
html_title = "gridveil"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"
# Summaries under results are fetched page by page, which browsers refuse to pages opened as files.
html_show_search_summary = False
html_sidebars = {"index": []}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "gridveil"},
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "navbar_persistent": ["search-button"],
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "back_to_top_button": False,
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def setup(app: Sphinx) -> None:
    """Tables as text have no colours."""
    app.add_lexer("csv", TextLexer)
