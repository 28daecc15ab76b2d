"""Mutant: a fault put into the code on purpose, and the leg of the tests that must find it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNEL_C = "commitlog/_kernel/c/"


@dataclass(frozen=True)
class CTests:
    """C tests of the kernel, by their names, under a sanitizer: "address" or "thread"."""

    names: tuple[str, ...]
    sanitizer: str = "address"

    def __str__(self) -> str:
        return f"C {' '.join(self.names)} ({self.sanitizer} sanitizer)"


@dataclass(frozen=True)
class PythonTests:
    """What pytest runs: files, or tests by their node ids."""

    nodes: tuple[str, ...]

    def __str__(self) -> str:
        return f"pytest {' '.join(self.nodes)}"


Leg = CTests | PythonTests


def c(*names: str, sanitizer: str = "address") -> CTests:
    return CTests(names, sanitizer)


def py(*nodes: str) -> PythonTests:
    return PythonTests(tuple(f"tests/{node}" for node in nodes))


class PatchError(Exception):
    """The text that a mutant replaces is not there exactly once."""


@dataclass(frozen=True)
class Mutant:
    """A patch of one file.

    Attributes
    ----------
    old, new : str
        A text that occurs once in the file, and what replaces it.
    leg : CTests or PythonTests
        What must fail.
    survives : str, optional
        Why no test of the repository finds it, if that is known.
    """

    name: str
    file: str
    old: str
    new: str
    leg: Leg
    survives: str = ""

    @property
    def needs_build(self) -> bool:
        """Whether Cython has to compile modules anew, which takes half a minute."""
        return isinstance(self.leg, PythonTests) and self.file.endswith((".h", ".pxi", ".pxd"))

    def applied(self, text: str) -> str:
        """Return a file's text with the patch."""
        found = text.count(self.old)
        if found != 1:
            raise PatchError(
                f"mutant {self.name}: its text is {found} times in {self.file}, not once: adapt "
                "the mutant to the code"
            )
        return text.replace(self.old, self.new)
