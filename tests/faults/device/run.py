"""A run: record a workload on a file system, then cut the power at many points of the record."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import select
import shutil
import signal
import struct
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from uuid import UUID

from tests.faults.device import diary, recorder, recording, system
from tests.faults.device.diary import Diary
from tests.faults.device.file_systems import FILE_SYSTEMS, FileSystem
from tests.faults.device.recording import Recording
from tests.faults.device.workload import Place, Workload
from tests.faults.device.workloads import WORKLOADS

LIES = ("msync", "fdatasync", "fsync file", "fsync directory")
RUN_LIMIT_S = 20.0
CHECK_LIMIT_S = 60.0
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Job:
    """One run and its cuts, which are numbered through all runs.

    Attributes
    ----------
    seed : int
        That of the leg; with the number of a cut it determines the cut.
    file_system, workload : str
        The names.
    first, count : int
        The number of the first cut, and how many there are.
    lie : str or None
        Calls that the workload skips.
    """

    seed: int
    file_system: str
    workload: str
    first: int
    count: int
    lie: str | None = None


@dataclass
class Failure:
    """A cut that lost something, or a run that failed; `cut` is None for a run."""

    cut: int | None
    text: str


@dataclass
class Result:
    """What a run and its cuts found."""

    job: Job
    cuts: int = 0
    acknowledged: int = 0
    entries: int = 0
    failures: list[Failure] = field(default_factory=list)


def run(job: Job, space: Path, keep: Path) -> Result:
    """Record a run in an empty folder, and check its cuts; keep the record if one fails."""
    result = Result(job)
    kind, workload = FILE_SYSTEMS[job.file_system], WORKLOADS[job.workload]
    try:
        first, last = _record(kind, workload, space, job)
    except Exception:  # noqa: BLE001 - what stops a run is its result
        result.failures.append(Failure(None, traceback.format_exc()))
        return result
    result.entries = last - first
    (space / "job.json").write_text(json.dumps(asdict(job) | {"begin": first, "end": last}))
    numbers = list(range(job.first, job.first + job.count))
    for _ in check_cuts(job, numbers, (first, last), space, result):
        pass
    if result.failures:
        _keep(space, keep / f"{job.file_system}-{job.workload}-{job.first}", result)
    return result


def check_cuts(
    job: Job, numbers: list[int], span: tuple[int, int], space: Path, result: Result
) -> Iterator[int]:
    """Check cuts of a record, in the order of their points; yield the number of each."""
    kind, workload = FILE_SYSTEMS[job.file_system], WORKLOADS[job.workload]
    notes = diary.stories(space / "notes")
    record = Recording(space / "image", space)
    moments = diary.moments(notes, *span)
    chosen = {}
    for number in numbers:
        generator = random.Random(f"{job.seed} cut {number}")
        chosen[number] = (recording.choose(generator, moments, kind.sector_size), generator)
    image, point = space / "cut", space / "disk"
    point.mkdir(exist_ok=True)
    for number, (cut, generator) in sorted(chosen.items(), key=lambda each: each[1][0].at):
        record.write_image(cut, generator, image)
        story = diary.story_at(notes, cut.at)
        place = Place(point, space / "beside")
        try:
            with _mounted(kind, image, point):
                result.acknowledged += _apart(lambda: workload.check(place, story))  # noqa: B023
        except Exception as error:  # noqa: BLE001 - a cut that fails is counted and kept
            result.failures.append(Failure(number, f"{cut}\n{error}"))
        result.cuts += 1
        yield number
    record.close()


# --- a record -------------------------------------------------------------------------------------


def _record(kind: FileSystem, workload: Workload, space: Path, job: Job) -> tuple[int, int]:
    """Let a workload write to a recorded device; return the entries when it began and ended."""
    image, disk, beside = space / "image", space / "disk", space / "beside"
    disk.mkdir()
    beside.mkdir()
    kind.format(image)
    served = space / "served"
    recording.copy_sparse(image, served)
    server, file = recorder.serve(served, space)
    count = recorder.counter(space)
    place = Place(disk, beside)
    try:
        with _mounted(kind, file, disk):
            workload.prepare(place)
            first = _count(count)
            _write(workload, place, space, job)
            last = _count(count)
    finally:
        system.unmount(file, lazy=True)
        os.waitpid(server, 0)
        served.unlink()
    return first, last


def _count(count: object) -> int:
    return int(struct.unpack_from("<Q", count)[0])  # type: ignore[arg-type]


def _write(workload: Workload, place: Place, space: Path, job: Job) -> None:
    """Run the processes of a workload until all have ended, and write pages back meanwhile."""
    numbers = random.Random(f"{job.seed} run {job.first}")
    boot = str(UUID(int=numbers.getrandbits(128), version=4))
    alive = {}
    for number, write in enumerate(workload.writes):

        def begin(number: int = number, write: Callable[..., None] = write) -> None:
            _pretend_machine(space, boot, number)
            if job.lie:
                _LIBC.lie(job.lie.encode())
            write(Diary(space / "notes", recorder.counter(space)), place, number)

        alive[_forked(begin)] = number
    deadline = time.monotonic() + RUN_LIMIT_S
    try:
        while alive:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid in alive:
                del alive[pid]
                code = os.waitstatus_to_exitcode(status)
                assert code == 0, f"a process of the workload ended with status {code}"
            assert time.monotonic() < deadline, "the workload did not end"
            _write_back(place.disk, numbers)
            select.select([], [], [], 0.003)
    finally:
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _pretend_machine(space: Path, boot: str, number: int) -> None:
    """Let this process see another boot id than the checks, and shared memory that they do not."""
    system.enter_namespace()
    system.pretend_boot(space / f"boot-{number}", boot)
    system.mount("none", Path("/dev/shm"), "tmpfs")


def _write_back(folder: Path, numbers: random.Random) -> None:
    """Start writing back some pages of a file, as the kernel may do at any time."""
    files = [Path(where) / name for where, _, names in os.walk(folder) for name in names]
    if not files:
        return
    with contextlib.suppress(OSError):
        fd = os.open(numbers.choice(files), os.O_RDONLY)
        try:
            pages = os.fstat(fd).st_size // 4096 + 1
            start = numbers.randrange(pages)
            length = numbers.randint(1, pages) * 4096
            system.write_back(fd, start * 4096, length)
        finally:
            os.close(fd)


# --- processes and mounts -------------------------------------------------------------------------


@contextlib.contextmanager
def _mounted(kind: FileSystem, file: Path, point: Path) -> Iterator[None]:
    kind.mount(file, point)
    try:
        yield
    finally:
        try:
            system.unmount(point)
        except OSError:
            system.unmount(point, lazy=True)
            raise


def _forked(act: Callable[[], None]) -> int:
    """Fork a process that does something and ends with status 0, or with 1 and a traceback."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.setpgid(0, 0)
        system.end_with_parent()
        act()
        status = 0
    except BaseException:  # noqa: BLE001 - nothing may get back into the loop that forked
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


def _apart(act: Callable[[], int]) -> int:
    """Return what a function returns in a process of its own; raise what it raises as text."""
    reader, writer = os.pipe()

    def tell() -> None:
        try:
            answer = {"found": act()}
        except BaseException:  # noqa: BLE001 - the parent raises it
            answer = {"error": traceback.format_exc(limit=-4)[-4000:]}
        os.write(writer, json.dumps(answer).encode())

    pid = _forked(tell)
    os.close(writer)
    try:
        if not select.select([reader], [], [], CHECK_LIMIT_S)[0]:
            raise TimeoutError(f"the check did not end within {CHECK_LIMIT_S:g} s")
        content = b"".join(iter(lambda: os.read(reader, 65536), b""))
    finally:
        os.close(reader)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if not content:
        raise ChildProcessError(f"the check ended with status {status}")
    answer = json.loads(content)
    if "error" in answer:
        raise AssertionError(answer["error"])
    return int(answer["found"])


# --- what is kept ---------------------------------------------------------------------------------

_KEPT = ("image", "entries", "bytes", "notes", "job.json")
_MOST_KEPT = 10


def _keep(space: Path, target: Path, result: Result) -> None:
    """Copy the record of a run of which a cut failed, unless many are kept already."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if len(list(target.parent.iterdir())) >= _MOST_KEPT:
        return
    target.mkdir(parents=True, exist_ok=True)
    for name in _KEPT:
        if (space / name).exists():
            if name == "image":
                recording.copy_sparse(space / name, target / name)
            else:
                shutil.copy(space / name, target / name)
    shutil.copytree(space / "beside", target / "beside", dirs_exist_ok=True)
    text = "\n\n".join(f"cut {each.cut}: {each.text}" for each in result.failures)
    (target / "failures.txt").write_text(text)
