"""The metadata of the package, as a build writes it for a package index."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from email import message_from_bytes
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\(([^)\s]+)\)")
BUILD = "import setuptools.build_meta as b; print(b.prepare_metadata_for_build_wheel('.'))"
URLS = re.compile(r"^\[project\.urls\]\n(?:\w+ = .*\n)+", re.MULTILINE)


def description(folder: Path, urls: str) -> str:
    """Build the metadata of a copy without the kernel and with `urls`; return the text that an
    index shows.
    """
    for name in ("README.md", "LICENSE", "setup.py"):
        shutil.copy(ROOT / name, folder)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project, replaced = URLS.subn(urls, project)
    assert replaced == 1
    (folder / "pyproject.toml").write_text(project, encoding="utf-8")
    built = subprocess.run(
        [sys.executable, "-c", BUILD], cwd=folder, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    metadata = folder / built.stdout.splitlines()[-1] / "METADATA"
    message = message_from_bytes(metadata.read_bytes())
    assert message["Description-Content-Type"] == "text/markdown"
    return str(message.get_payload())


def test_description_without_project_url_has_no_relative_link(tmp_path: Path) -> None:
    text = description(tmp_path, "")
    assert LINK.findall(text) == []
    assert "Tutorial (`docs/tutorial.md`)" in text
    assert "*How long an append takes at a constant rate, by percentile*" in text


def test_description_links_below_the_project_url(tmp_path: Path) -> None:
    text = description(tmp_path, '[project.urls]\nSource = "https://example.org/log/"\n')
    found = LINK.findall(text)
    written = LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(found) == len(written) > 30
    assert "https://example.org/log/blob/HEAD/docs/tutorial.md" in found
    assert "https://example.org/log/raw/HEAD/docs/images/constant-rate.svg" in found
    assert all(link.startswith("https://") for link in found)
