"""Reports of a log, an archive or a segment file, for `info` and `list`.

A report is the object that `--json` prints, with the keys of docs/json.md; `lines` prints the same
keys as text.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import commitlog
from commitlog import CommitLog
from commitlog.base.path import is_remote
from commitlog.errors import CommitLogError, CorruptSegmentError
from commitlog.extension import HEADER_SIZE, LogFiles, SourceFiles, view_of
from commitlog.network.replication.followed_mark import FollowedMark
from commitlog.tools.cli.quantities import size_text
from commitlog.tools.cli.record_format import time_text
from commitlog.topics.summary import layers_of, layers_text, newest, sizes_of
from commitlog.types import Identity

Report = dict[str, Any]
# Keys that `lines` prints in another form, or not at all.
_ELSEWHERE = ("path", "kind", "state", "seal", "writers", "topics", "problems")
STATES = {
    "open": "open for writing",
    "closed": "closed",
    "unclean": "not closed; the next open recovers it",
}


def state_of(*, live: bool, clean: bool) -> str:
    return "open" if live else "closed" if clean else "unclean"


def report_of(path: str) -> Report:
    """Return the report of the log, archive or segment file at a path or an address."""
    if is_remote(path):
        return _remote(path)
    elsewhere = SourceFiles.open(path)
    if elsewhere is None:
        return _log(path)
    with elsewhere:
        return _segment(elsewhere) if elsewhere.is_segment else _archive(elsewhere)


def add_topics(report: Report) -> None:
    """Add the topics of a log's newest records, and what compression and seals made of them."""
    report["topics"] = []
    if not report["records"]:
        return
    try:
        with commitlog.open(report["path"], "r") as opened:
            topics = newest(opened).topics()
            topics.pop(None, None)  # `commitlog topics` reports what has no schema
    except CommitLogError as error:
        report["problems"].append(str(error))
        return
    for name, versions in sorted(topics.items()):
        after, before = sizes_of(versions)
        report["topics"].append(
            {
                "name": name,
                "messages": sum(each.messages for each in versions),
                "layers": layers_of(versions),
                "value_bytes": after,
                "plain_bytes": before,
            }
        )


def lines(report: Report) -> Iterator[str]:
    """Yield a report as lines: the same keys, with sizes and times in units."""
    state = f", {STATES[report['state']]}" if "state" in report else ""
    yield f"{report['path']}: {report['kind']}{state}"
    for key, content in report.items():
        if key in _ELSEWHERE or content is None:
            continue
        name, text = key.replace("_", " "), str(content)
        if key.endswith("_ns"):
            name, text = name.removesuffix(" ns"), time_text(content)
        elif key.endswith("_bytes") or key == "segment_size":
            name, text = name.removesuffix(" bytes"), size_text(content)
        yield f"  {name:<24}{text}"
    for topic in report.get("topics", ()):
        layers = layers_text(topic["layers"], topic["value_bytes"], topic["plain_bytes"])
        count = f"{topic['messages']} of the newest records"
        yield f"  {'topic':<24}{topic['name']}: {count}{layers}"
    for writer in report.get("writers", ()):
        yield f"  {'writer':<24}{writer['name']} (pid {writer['pid']}), slot {writer['slot']}"
    yield from (f"  wrong: {problem}" for problem in report["problems"])


def _identity(kind: str, path: str, identity: Identity) -> Report:
    return {
        "kind": kind,
        "path": path,
        "uuid": str(uuid.UUID(bytes=identity.uuid)),
        "format": ".".join(map(str, Identity.FORMAT)),
        "created_ns": identity.created_ns,
        "timestamps": identity.timestamps,
        "roll_cycle": None if identity.roll_cycle is None else str(identity.roll_cycle),
    }


def _segments(numbers: list[int], disk_bytes: int, identity: Identity) -> Report:
    size = identity.segment_size
    return {
        "segment_size": size,
        "segments": len(numbers),
        "first_segment_position": numbers[0] * size if numbers else None,
        "last_segment_position": numbers[-1] * size if numbers else None,
        "disk_bytes": disk_bytes,
    }


def _sequences(first: int | None, behind: int | None) -> Report:
    """Return sequences and count of the records from `first` up to `behind`, exclusive."""
    count = None if first is None or behind is None else behind - first
    last = behind - 1 if behind is not None and count else None
    return {"records": count, "first_sequence": first, "last_sequence": last}


_WATERMARKS = ("first", "tail", "appended", "committed", "flushed")
_UNKNOWN: Report = {
    **{f"{name}_position": None for name in (*_WATERMARKS, "last")},
    **_sequences(None, None),
    "first_timestamp_ns": None,
    "last_timestamp_ns": None,
}

# --- a log ----------------------------------------------------------------------------------------


def _log(path: str) -> Report:
    with LogFiles(path) as files:
        problems = [] if files.fault is None else [files.fault]
        checkpoint, live = files.checkpoint(), files.live
        report = {
            **_identity("log", path, files.identity),
            "state": state_of(live=live, clean=checkpoint is not None and checkpoint.clean),
            **_segments(files.segment_numbers(), files.disk_bytes(), files.identity),
            "checkpoint_position": None if checkpoint is None else checkpoint.position,
        }
        writers = files.live_writers()
        with _noting(problems):
            report |= _epoch(files)
    report |= _UNKNOWN
    with _noting(problems), commitlog.open(path, "r") as opened:
        _add_records(report, opened)
    report["writers"] = [
        {"slot": one.slot, "pid": one.pid, "name": one.name, "since_ns": one.since_ns}
        for one in writers
    ]
    return {**report, "problems": problems}


@contextlib.contextmanager
def _noting(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except CommitLogError as error:
        problems.append(str(error))


def _epoch(files: LogFiles) -> Report:
    """Report what a log follows, its epoch and its copies, if it has any of them."""
    known = files.lineage()
    if known is None:
        return {}
    lag = None if known.follows is None else FollowedMark(files.notes).lag_bytes
    return {
        "follows": known.follows,
        "lag_bytes": lag,
        "epoch": known.number,
        "promised_epoch": known.promised.number if known.promised > known.rank else None,
        "copies": known.copies,
        "restored": files.restored,
    }


def _remote(url: str) -> Report:
    """Report a log on another machine, by the answers of its server."""
    problems: list[str] = []
    with commitlog.open(url, "r") as opened:
        seen = view_of(opened).snapshot()
        report = {
            **_identity(seen.kind, url, opened.identity),
            **_segments(seen.segment_numbers, seen.disk_bytes, opened.identity),
            **_UNKNOWN,
        }
        with _noting(problems):
            _add_records(report, opened)
    return {**report, "problems": problems}


def _add_records(report: Report, opened: CommitLog) -> None:
    """Add the watermarks, and the fields of the first and the last record."""
    for name in _WATERMARKS:
        report[f"{name}_position"] = getattr(opened, f"{name}_position")
    figures = opened.stats()
    if figures.replicated_position is not None:
        for name in ("replicated_position", "replication_lag_bytes", "replication_lag_ms"):
            report[name] = getattr(figures, name)
    store = figures.store
    if store is not None:
        report |= {
            "store": store.target,
            "stored_position": store.position,
            "store_kept_position": store.kept_position,
            "store_lag_bytes": store.lag_bytes,
            "store_lag_ms": store.lag_ms,
            "store_error": store.last_error,
            "store_failing_since_ns": store.failing_since_ns,
        }
    first, last = opened.first_sequence, opened.last_sequence
    report |= _sequences(first, first if last is None else last + 1)
    report["last_position"] = opened.last_position
    if last is None:
        return
    with (
        opened.tailer(start="first") as forward,
        opened.tailer(start="end", direction="backward") as backward,
    ):
        for name, tailer in (("first", forward), ("last", backward)):
            record = tailer.read()
            report[f"{name}_timestamp_ns"] = None if record is None else record.timestamp_ns


# --- an archive, a segment file -------------------------------------------------------------------


def _archive(files: SourceFiles) -> Report:
    """Report an archive from the list of its files and the headers of its first and last file."""
    directory = files.directory
    identity, size = directory.identity, directory.segment_size
    numbers = directory.segment_numbers()
    problems = [
        f"segments from position {start} to {stop} are missing" for start, stop in files.holes()
    ]
    sequences: tuple[int, int] | tuple[None, None] = None, None
    if numbers:
        try:
            sequences = directory.sequences() or sequences
        except CorruptSegmentError as error:
            problems.append(str(error))
    return {
        **_identity("archive", directory.path, identity),
        **_segments(numbers, directory.whole_disk_bytes(), identity),
        "uncompressed_bytes": len(numbers) * size,
        "first_position": numbers[0] * size + HEADER_SIZE if numbers else None,
        "end_position": directory.end() if numbers else None,
        **_sequences(*sequences),
        "problems": problems,
    }


def _segment(files: SourceFiles) -> Report:
    """Report a segment file from its seal; without a seal, count the frames."""
    directory, header = files.directory, files.segment_fields()
    base, seal = header["base_position"], header["seal"]
    problems = []
    if seal is not None:
        end = base + seal["end_offset"]
        found = _sequences(seal["first_sequence"], seal["first_sequence"] + seal["records"])
        first_ns, last_ns = seal["first_timestamp_ns"], seal["last_timestamp_ns"]
    else:
        (number,) = directory.segment_numbers()
        end = directory.end()
        with directory.opened_segment(number) as segment:
            stopped, code, count, _, _, first_ns, last_ns, _ = segment.scan(HEADER_SIZE, end - base)
        found = {**_sequences(None, None), "records": count}
        if code != 0:
            problems.append(
                f"damage at position {base + stopped}: the records behind it are not counted"
            )
    identity = _identity("segment", directory.path, directory.identity)
    return {
        **{key: identity[key] for key in ("kind", "path", "uuid", "format", "created_ns")},
        **header,
        "disk_bytes": directory.whole_disk_bytes(),
        "first_position": header["base_position"] + HEADER_SIZE,
        "end_position": end,
        **found,
        "first_timestamp_ns": first_ns if found["records"] else None,
        "last_timestamp_ns": last_ns if found["records"] else None,
        "problems": problems,
    }
