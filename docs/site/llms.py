"""`llms.txt`: the pages of the site for language models, in the form of https://llmstxt.org.

It is made of the README's first lines and of the tables of docs/index.md, so that there is one list
of pages. The source of each page of Markdown is beside it, and is what the list links to.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

NAME = "llms.txt"
_ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)#]+)\) \| (.+) \|$")
_INCLUDE = re.compile(r"^```\{include\} (\S+)\n(?::.*\n)*```\n", re.MULTILINE)
_OPTIONAL = "Project"  # the pages of this heading may be left out of a short context


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", write_list)
    return {"parallel_read_safe": True}


def write_list(app: Sphinx, error: Exception | None) -> None:
    """Write the list into the site, and the sources of the pages beside them."""
    if error is not None or app.builder.format != "html":
        return
    docs, site = Path(app.srcdir), Path(app.outdir)
    readme = (docs.parent / "README.md").read_text(encoding="utf-8")
    index = (docs / "index.md").read_text(encoding="utf-8")
    (site / NAME).write_text(page_list(readme, index), encoding="utf-8")
    for source in docs.rglob("*.md"):
        copied = site / source.relative_to(docs)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_text(whole(source), encoding="utf-8")


def whole(page: Path) -> str:
    """Return the source of a page, with the text of files that it includes."""
    return _INCLUDE.sub(
        lambda found: (page.parent / found[1]).read_text(encoding="utf-8"),
        page.read_text(encoding="utf-8"),
    )


def page_list(readme: str, index: str) -> str:
    """Return the list: a heading, a summary, and a link with a note for each row of the index."""
    title, summary, about = readme.split("\n\n")[:3]
    lines = [title, "", "> " + " ".join(summary.split()), "", *_uses(about, readme)]
    for line in index.splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
            lines += ["", "## Optional" if heading == _OPTIONAL else line, ""]
        elif row := _ROW.match(line):
            name, page, note = row.groups()
            target = page.removesuffix(".rst") + ".html" if page.endswith(".rst") else page
            lines.append(f"- [{name}]({target}): {_plain(note)}")
    return "\n".join(lines) + "\n"


def _uses(about: str, readme: str) -> list[str]:
    """Return who uses it, and how it is installed: what a model gets wrong otherwise."""
    listed = readme.split("\n\n")[3]
    return [about, "", listed, "", "Install `commitlog-engine`; the import is `commitlog`."]


def _plain(note: str) -> str:
    """Return a cell without links."""
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", note)
