"""Check a backup before it takes its place."""

from __future__ import annotations

from commitlog.backup.writing import Written
from commitlog.base.progress import Meter
from commitlog.errors import CorruptSegmentError
from commitlog.extension import surveying


def check(path: str, written: Written, meter: Meter) -> None:
    """Read every frame that was written, and check the rest by its header and its place.

    Raises
    ------
    CorruptSegmentError
        What was written is not what was copied: the disk or the memory is faulty.
    """
    with surveying(path, live=False) as survey:
        numbers, size = survey.begin(), survey.size
        for number in written.new:
            survey.check_segment(number)
            meter.add(min(size, written.end - number * size))
        report = survey.end(numbers)
    problems = [
        *report.problems,
        *(f"position {each.position}: {each.reason}" for each in report.damage),
        *(f"segments from {start} to {stop} are missing" for start, stop in report.holes),
        *(text for segment in report.segments for text in segment.problems),
    ]
    if report.torn is not None:
        problems.append(f"position {report.torn.position}: no frame")
    if numbers != written.numbers:
        problems.append("it has other segments than were written")
    if problems:
        raise CorruptSegmentError(
            f"the backup was written and is damaged ({problems[0]}), and is not kept: check disk "
            "and memory of this machine",
            path=path,
        )
