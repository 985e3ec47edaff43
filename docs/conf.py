"""How the site is built: `make docs`."""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from shutil import which

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "benchmarks")]

project = "Theodolite"
author = "The Theodolite developers"
copyright = "The Theodolite developers"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "generated_reference",
    "study_reports",
]
smartquotes = False  # --option must stay as it is typed
exclude_patterns = ["_build", "_ext", "**.ipynb_checkpoints"]

html_theme = "furo"
html_title = "Theodolite"
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
pygments_style = "friendly"
pygments_dark_style = "github-dark"

# Every notebook runs at every build, in a folder and with a cache of its own, and without the network.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_output_stderr = "remove"  # progress bars, and warnings with the paths of the machine that built the site
os.environ.setdefault("THEODOLITE_CACHE", tempfile.mkdtemp(prefix="theodolite-docs-"))
os.environ["HF_HUB_OFFLINE"] = "1"
# Figures are SVG, which loads nothing, if a browser can draw them; otherwise Plotly's library comes from its CDN.
_draws = find_spec("kaleido") and any(map(which, ("chromium", "chromium-browser", "google-chrome")))
os.environ["PLOTLY_RENDERER"] = "svg" if _draws else "notebook_connected"

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

default_role = "code"  # docstrings write `name`, as Markdown does
napoleon_google_docstring = False
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the signature has been read; the text says what a parameter is
autodoc_typehints_format = "short"

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
