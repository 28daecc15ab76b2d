"""Keep the site of each version: copy build/site to FOLDER/VERSION, and list what is there.

    python docs/site/publish.py FOLDER

FOLDER/versions.json lists the versions, the newest first; the pages read it and link to the others.
FOLDER/index.html leads to the newest one. Publish FOLDER as it is: it needs no server of its own.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from packaging.version import InvalidVersion, Version

from commitlog import __version__

SITE = Path(__file__).resolve().parents[2] / "build" / "site"
_INDEX = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>commitlog</title>
<meta http-equiv="refresh" content="0; url={0}/">
<p><a href="{0}/">commitlog {0}</a></p></html>
"""


def publish(site: Path, folder: Path, version: str) -> None:
    """Add or replace the site of a version. A site appears whole, and before the list names it."""
    folder.mkdir(parents=True, exist_ok=True)
    new, target = folder / f".{version}", folder / version
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(site, new)
    shutil.rmtree(target, ignore_errors=True)
    new.rename(target)
    found = versions(folder)
    newest = found[0]
    listed = [{"version": one, "url": f"{one}/"} for one in found]
    llms = (folder / newest / "llms.txt").read_text(encoding="utf-8")
    texts = {
        "versions.json": json.dumps(listed, indent=2) + "\n",
        "index.html": _INDEX.format(newest),
        "llms.txt": re.sub(r"\]\((?!https?:)", f"]({newest}/", llms),
    }
    for name, text in texts.items():
        written = folder / f".{name}"
        written.write_text(text, encoding="utf-8")
        written.replace(folder / name)


def versions(folder: Path) -> list[str]:
    """Return the versions that have a site in the folder, the newest first."""
    found = []
    for path in folder.iterdir():
        try:
            version = Version(path.name)
        except InvalidVersion:
            continue
        if (path / "index.html").is_file():
            found.append((version, path.name))
    return [name for _, name in sorted(found, reverse=True)]


def main(arguments: list[str]) -> int:
    """Publish the site that `make docs` built; return the exit status."""
    if len(arguments) != 1:
        print("name the folder: python docs/site/publish.py FOLDER", file=sys.stderr)
        return 2
    if not (SITE / "index.html").is_file():
        print(f"there is no page {SITE / 'index.html'}: run `make docs` first", file=sys.stderr)
        return 1
    publish(SITE, Path(arguments[0]), __version__)
    print(f"The site of {__version__} is in {arguments[0]}/{__version__}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
