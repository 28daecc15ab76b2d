"""Check a release: version, changelog, URLs and tag, and then what is in `dist`.

    python wheels/release.py [--dist FOLDER [--complete]]

Without `--dist`, only the checkout is checked. `--complete` wants a wheel for each platform and
interpreter that pyproject.toml builds, as on an index; else the wheels of one machine are enough.
Prints every problem, and exits with 1 if there is one. Needs git and the standard library.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LARGEST = 2 << 20  # bytes of a wheel
PLATFORMS = [
    f"{libc}_{machine}" for libc in ("manylinux", "musllinux") for machine in ("x86_64", "aarch64")
]
SECTION = re.compile(r"^## \[([^\]\n]+)\]([^\n]*)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
DATED = re.compile(r" - \d{4}-\d\d-\d\d")
WHEEL = re.compile(r"([^-]+)-([^-]+)-(cp3\d+)-\3-([\w.]+)\.whl")


# --- the checkout ---------------------------------------------------------------------------------


def version_problems(version: str, package: str) -> Iterator[str]:
    """Compare pyproject.toml's version with the text of `commitlog/__init__.py`."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        yield f"pyproject.toml: version {version!r} is not of the form 1.2.3"
    (found,) = re.findall(r'^__version__ = "(.*)"$', package, re.MULTILINE) or [None]
    if found != version:
        yield f"commitlog/__init__.py: __version__ is {found!r}, and pyproject.toml has {version!r}"


def changelog_problems(version: str, changelog: str) -> Iterator[str]:
    """Check that the changelog begins with an empty Unreleased, then a dated section of the
    version.
    """
    sections = SECTION.findall(changelog)
    if [name for name, _, _ in sections[:2]] != ["Unreleased", version]:
        yield f"CHANGELOG.md: its first sections are not [Unreleased] and [{version}]"
        return
    (_, _, unreleased), (_, date, changes) = sections[:2]
    if unreleased.strip():
        yield f"CHANGELOG.md: [Unreleased] has changes: move them to [{version}]"
    if not DATED.fullmatch(date):
        yield f"CHANGELOG.md: [{version}] has no date: write `## [{version}] - 2027-01-31`"
    if not changes.strip():
        yield f"CHANGELOG.md: [{version}] is empty"


def url_problems(urls: dict[str, str]) -> Iterator[str]:
    for name, url in urls.items():
        if "//example." in url:
            yield f"pyproject.toml: the URL {name} is a placeholder ({url}): set the project's own"
    if "Source" not in urls:
        yield "pyproject.toml: the URL Source is missing: the links of the README need it"


def tag_problems(version: str, root: Path) -> Iterator[str]:
    """Check that the tag of the version is on the commit that is checked out, unchanged."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, check=False
        ).stdout.rstrip()

    head, tagged = git("rev-parse", "HEAD"), git("rev-list", "-n", "1", f"v{version}", "--")
    if not tagged:
        yield f"git: there is no tag v{version}: git tag --annotate v{version}"
    elif tagged != head:
        yield f"git: the tag v{version} is on {tagged[:8]}, and {head[:8]} is checked out"
    for line in git("status", "--porcelain").splitlines():
        yield f"git: not committed: {line}"


# --- dist -----------------------------------------------------------------------------------------


def metadata_problems(file: str, metadata: bytes, version: str) -> Iterator[str]:
    message = message_from_bytes(metadata)
    for key, wanted in (("Name", "commitlog-engine"), ("Version", version)):
        if message[key] != wanted:
            yield f"{file}: its metadata has {key} {message[key]!r} and not {wanted!r}"


def source_problems(source: Path, version: str, tracked: list[str]) -> Iterator[str]:
    """Check that the source distribution has all tracked files and nothing compiled."""
    top = f"commitlog_engine-{version}/"
    with tarfile.open(source) as archive:
        names = {name.removeprefix(top) for name in archive.getnames()}
        info = archive.extractfile(f"{top}PKG-INFO") if "PKG-INFO" in names else None
        yield from metadata_problems(source.name, info.read() if info else b"", version)
    for name in sorted(set(tracked) - names):
        yield f"{source.name}: lacks {name}: add it to MANIFEST.in"
    for name in sorted(names):
        if name.endswith((".so", ".pyc", ".o", ".a")):
            yield f"{source.name}: has the compiled file {name}"


def wheel_problems(wheel: Path, version: str, modules: list[str]) -> Iterator[str]:
    """Check size, metadata and content of a wheel: compiled modules and package data, no sources
    of C.
    """
    if wheel.stat().st_size > LARGEST:
        yield f"{wheel.name}: has {wheel.stat().st_size} bytes, at most {LARGEST} are wanted"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = f"commitlog_engine-{version}.dist-info/METADATA"
        metadata = archive.read(info) if info in names else b""
    yield from metadata_problems(wheel.name, metadata, version)
    for module in modules:
        if not any(re.fullmatch(rf"{re.escape(module)}\.[\w.-]+\.so", name) for name in names):
            yield f"{wheel.name}: lacks the compiled module {module}"
    for name in ("commitlog/py.typed", "commitlog/include/commitlog/capi.h"):
        if name not in names:
            yield f"{wheel.name}: lacks {name}"
    for name in names:
        if name.endswith((".c", ".pyx", ".pxi", ".pyc")) or name.startswith("tests/"):
            yield f"{wheel.name}: has {name}"


def missing_wheels(wheels: list[Path], builds: list[str]) -> Iterator[str]:
    """Name each interpreter and platform of `builds` ("cp311-*") that no wheel is for."""
    found = set()
    for match in filter(None, (WHEEL.fullmatch(wheel.name) for wheel in wheels)):
        found |= {
            (match[3], re.sub(r"_\d+_\d+_|2014_", "_", tag, count=1)) for tag in match[4].split(".")
        }
    for build in builds:
        for platform in PLATFORMS:
            if (build.removesuffix("-*"), platform) not in found:
                yield f"dist: lacks a wheel for {build.removesuffix('-*')} on {platform}"


def dist_problems(dist: Path, version: str, tracked: list[str]) -> Iterator[str]:
    """Check each file in `dist`; files of other versions or platforms are problems, too."""
    source = dist / f"commitlog_engine-{version}.tar.gz"
    if source.exists():
        yield from source_problems(source, version, tracked)
    else:
        yield f"dist: lacks {source.name}"
    modules = [name.removesuffix(".pyx") for name in tracked if name.endswith(".pyx")]
    wheels = sorted(dist.glob("*.whl"))
    if not wheels:
        yield "dist: has no wheel"
    for wheel in wheels:
        match = WHEEL.fullmatch(wheel.name)
        if match is None or match[2] != version:
            yield f"{wheel.name}: is not a wheel of {version}"
        elif match[4].startswith("linux_"):
            yield f"{wheel.name}: an index takes manylinux and musllinux only: run auditwheel"
        else:
            yield from wheel_problems(wheel, version, modules)
    for other in sorted(set(dist.iterdir()) - {source, *wheels}):
        yield f"dist: {other.name} is not part of {version}: remove it"


# --- all ------------------------------------------------------------------------------------------


def tracked_files(root: Path) -> list[str]:
    """Return what a source distribution must have: every tracked file of the package."""
    return subprocess.run(
        ["git", "ls-files", "commitlog", "LICENSE", "README.md", "CHANGELOG.md", "constraints.txt"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()


def problems(root: Path, dist: Path | None, *, complete: bool) -> Iterator[str]:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    version = project["project"]["version"]
    yield from version_problems(version, (root / "commitlog/__init__.py").read_text("utf-8"))
    yield from changelog_problems(version, (root / "CHANGELOG.md").read_text("utf-8"))
    yield from url_problems(project["project"].get("urls", {}))
    yield from tag_problems(version, root)
    if dist is not None:
        yield from dist_problems(dist, version, tracked_files(root))
        if complete:
            wheels = sorted(dist.glob("*.whl"))
            yield from missing_wheels(wheels, project["tool"]["cibuildwheel"]["build"])


def main(given: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Check a release.")
    parser.add_argument("--dist", type=Path, help="folder of the wheels and the sources")
    parser.add_argument("--complete", action="store_true", help="want the wheels of all platforms")
    arguments = parser.parse_args(given)
    found = list(problems(ROOT, arguments.dist, complete=arguments.complete))
    for problem in found:
        print(f"release: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
