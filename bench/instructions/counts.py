"""Instructions per operation, as kept in the repository and as counted now, and what has become of
them in between.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

KEPT = Path(__file__).with_name("counts.json")
TOLERANCE = 0.05
MORE = "more"
FEWER = "fewer"


@dataclass(frozen=True)
class Counts:
    """Instructions per operation by hot path, and what they depend on."""

    compiler: str
    machine: str
    flags: list[str]
    crc32c: str
    instructions: dict[str, float]

    @staticmethod
    def load(file: Path) -> Counts:
        return Counts(**json.loads(file.read_text(encoding="utf-8")))

    def save(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    def comparable(self, other: Counts) -> bool:
        """Whether differences are the code's: the same machine type, and the same compiler up to
        its major version.
        """
        return self._made_by() == other._made_by()

    def _made_by(self) -> tuple[str, str]:
        return self.machine, self.compiler.partition(".")[0]


@dataclass(frozen=True)
class Change:
    """One hot path before and now; None where there is no such path."""

    path: str
    kept: float | None
    now: float | None

    @property
    def ratio(self) -> float | None:
        return self.now / self.kept if self.kept and self.now is not None else None

    @property
    def verdict(self) -> str:
        """What is to be done about it; nothing, if empty."""
        if self.ratio is None:
            return "not counted any more" if self.now is None else "not kept yet"
        if self.ratio > 1 + TOLERANCE:
            return MORE
        return FEWER if self.ratio < 1 - TOLERANCE else ""

    @property
    def fails(self) -> bool:
        return self.verdict not in ("", FEWER)


def changes(kept: Counts, now: Counts) -> list[Change]:
    """Every hot path of either."""
    names = dict.fromkeys([*now.instructions, *kept.instructions])
    return [Change(name, kept.instructions.get(name), now.instructions.get(name)) for name in names]
