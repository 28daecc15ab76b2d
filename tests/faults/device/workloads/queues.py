"""A work queue: jobs that are put, accepted, given back and buried by two processes."""

from __future__ import annotations

import contextlib

import commitlog
from commitlog.queues import Queue
from tests.faults.device.checks import check_sound
from tests.faults.device.diary import Diary, Story
from tests.faults.device.workload import Place, Workload

_JOBS = 120
PUT, BEGUN, ACCEPTED, BURIED = "P", "B", "A", "D"


def _opened(place: Place) -> Queue:
    return commitlog.queue(place.disk / "log", "jobs", backoff=0, sync=True, segment_size="64KiB")


def _write(diary: Diary, place: Place, number: int) -> None:
    """Put jobs and take jobs of both processes; every end of a job is durable when it returns."""
    with _opened(place) as queue:
        for index in range(_JOBS):
            job_number = number * _JOBS + index
            queue.log.append(b"%d" % job_number, sync=True)
            diary.say(PUT, number, job_number)
            if index % 2:
                for job in queue.take_many(3, 0):
                    _finish(diary, job, number)


def _finish(diary: Diary, job: commitlog.queues.Job, number: int) -> None:
    which = int(job.value)
    diary.say(BEGUN, number, which)
    if which % 7 == 3:
        job.reject("no use")
        diary.say(BURIED, number, which)
    elif which % 5 == 1 and job.attempt == 1:
        job.release(0, reason="again")
    else:
        job.accept()
        diary.say(ACCEPTED, number, which)


def _check(place: Place, story: Story) -> int:
    """Each job is accepted once in the durable record, or comes again; none is lost."""
    folder = place.disk / "log"
    if any(story.kinds(PUT)):
        check_sound(folder)
    with contextlib.suppress(FileNotFoundError):
        (folder / "queues" / "jobs" / "leases").unlink()  # of the machine before the cut
    with _opened(place) as queue:
        left = [int(job.value) for job in queue.taking(batch=50, timeout=0)]
        letters = [int(letter.value or b"") for letter in queue.dead()]
        assert queue.stats().depth == 0
    put = {report.index for report in story.kinds(PUT)}
    accepted = {report.index for report in story.kinds(ACCEPTED)}
    buried = {report.index for report in story.kinds(BURIED)}
    # What was begun may be finished, although its note came after the cut.
    begun = {report.index for report in story.whole if report.kind == BEGUN}
    assert put <= {*left, *letters, *begun}, "a job was lost"
    assert buried <= set(letters), "a dead letter was lost"
    assert not accepted & {*left, *letters}, "an accepted job came again"
    assert len(left) == len(set(left)), "a job came twice"
    assert len(letters) == len(set(letters)), "a job has two letters"
    assert not set(left) & set(letters), "a dead job came again"
    with _opened(place) as queue:
        assert queue.take_many(1, 0) == []
    return len(put)


WORKLOADS = (Workload("queue", (_write, _write), _check),)
