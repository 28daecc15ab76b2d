"""The documentation site: Sphinx, with the theme Furo. `make docs` builds it into build/site."""

from __future__ import annotations

import os
import sys

from pygments.lexers import TextLexer
from sphinx.application import Sphinx

import commitlog

sys.path[:0] = [os.path.dirname(__file__)]

project = "commitlog"
version = release = commitlog.__version__
author = "the commitlog authors"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "llms",
    "manual",
    "navigation",
    "signatures",
]
root_doc = "index"
exclude_patterns = ["site"]
default_role = "py:obj"

myst_heading_anchors = 3  # with the anchors of code hosts

autodoc_default_options = {"members": True, "inherited-members": "Exception,object"}
autodoc_member_order = "groupwise"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"commitlog {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = [("versions.js", {"defer": "defer"})]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0d6b66",
        "color-brand-content": "#0d6b66",
    },
    "dark_css_variables": {
        "color-brand-primary": "#5cc9c0",
        "color-brand-content": "#5cc9c0",
    },
}
highlight_language = "none"  # of a block that names none
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def setup(app: Sphinx) -> None:
    app.add_lexer("hex", TextLexer)  # the example of docs/format.md
