"""The navigation: the pages in the tables of docs/index.md, and of the indexes of its folders."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

_HEADING_OR_ROW = re.compile(
    r"^## (.+)$|^\| \[([^\]]+)\]\(([^):#]+)\.(?:md|rst)\) \|", re.MULTILINE
)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", add_navigation)
    return {"parallel_read_safe": True}


def add_navigation(app: Sphinx, name: str, content: list[str]) -> None:
    """Append a hidden table of contents to an index: its tables are the only list of pages."""
    if name.endswith("/index"):
        pages = "".join(
            f"{title} <{page}>\n" for _, title, page in _HEADING_OR_ROW.findall(content[0]) if page
        )
        content[0] += f"\n```{{toctree}}\n:hidden:\n\n{pages}```\n"
    if name != app.config.root_doc:
        return
    for heading, title, page in _HEADING_OR_ROW.findall(content[0]):
        if heading:
            content[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n```\n"
        else:
            content[0] = content[0].removesuffix("```\n") + f"{title} <{page}>\n```\n"
