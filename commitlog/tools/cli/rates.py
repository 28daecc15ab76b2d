"""Rates of a log between two snapshots."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from commitlog.tools.observe.watching import LogFigures


@dataclass(frozen=True)
class Rates:
    """Hold rates per second; None if there is no earlier snapshot."""

    tail_bytes: float | None
    committed_bytes: float | None
    flushed_bytes: float | None
    records: float | None
    claims: dict[int, float]  # by slot
    tailers: dict[str, float]  # bytes read, by name

    @classmethod
    def between(cls, old: LogFigures | None, new: LogFigures) -> Rates:
        """Return the rates between two snapshots. There are none if another log took the place of
        the first, or for an archive or a segment file, which do not change.
        """
        if old is None or old.uuid != new.uuid or new.taken_ns <= old.taken_ns or new.kind != "log":
            return cls(None, None, None, None, {}, {})
        seconds = new.seconds_since(old)

        def rate(first: int | None, second: int | None) -> float | None:
            return None if first is None or second is None else max(0, second - first) / seconds

        claims = {writer.slot: (writer.since_ns, writer.claims) for writer in old.writers}
        places = {tailer.name: tailer.position for tailer in old.tailers}
        moved = {
            tailer.name: rate(places.get(tailer.name), tailer.position) for tailer in new.tailers
        }
        return cls(
            tail_bytes=rate(old.tail_position, new.tail_position),
            committed_bytes=rate(old.committed_position, new.committed_position),
            flushed_bytes=rate(old.flushed_position, new.flushed_position),
            records=rate(old.next_sequence, new.next_sequence),
            claims={
                writer.slot: (writer.claims - claims[writer.slot][1]) / seconds
                for writer in new.writers
                if claims.get(writer.slot, (None, 0))[0] == writer.since_ns
            },
            tailers={name: moving for name, moving in moved.items() if moving is not None},
        )


def as_object(now: LogFigures, rates: Rates) -> dict[str, Any]:
    made = asdict(now)
    del made["taken_ns"]
    for name in ("tail_bytes", "committed_bytes", "flushed_bytes", "records"):
        made[f"{name}_per_s"] = getattr(rates, name)
    for writer in made["writers"]:
        writer["claims_per_s"] = rates.claims.get(writer["slot"])
    for tailer in made["tailers"]:
        tailer["bytes_per_s"] = rates.tailers.get(tailer["name"])
    return made
