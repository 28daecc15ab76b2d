"""Each call on the durability path fails once: a commitlog error is raised, and no record in doubt
is acknowledged.
"""

from __future__ import annotations

import errno
import mmap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import commitlog
from commitlog import Store
from commitlog.errors import IOFailureError
from commitlog.keep import archive_segments
from tests.faults import image
from tests.faults.child import Child, Link
from tests.faults.failing_acts import fill, tear
from tests.faults.failing_calls import serve
from tests.faults.failing_cases import BY_NAME, CASES
from tests.faults.failing_scene import FAILS, OPTIONS, VALUE, Scene
from tests.faults.shim import Shim, fail, own_state
from tests.faults.writers import open_log
from tests.setups import tuned

DOCUMENT = Path(__file__).parents[2] / "docs/durability.md"
Run = Callable[[str], str]


@pytest.fixture(scope="module")
def run_case(shim_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Return a function that lets the worker run a case and returns its traceback, empty on
    success.
    """
    directory = tmp_path_factory.mktemp("failing-calls")
    child = Child(serve, str(directory), environment=Shim(shim_library, directory).environment())

    def run(name: str) -> str:
        (directory / "wanted").write_text(name)
        child.go_on()
        child.hear(1)
        return (directory / "outcome").read_text()

    yield run
    child.end()


@pytest.mark.parametrize("name", BY_NAME)
def test_failing_call_acknowledges_nothing_in_doubt(name: str, run_case: Run) -> None:
    outcome = run_case(name)
    if outcome:
        pytest.fail(outcome, pytrace=False)


def test_document_has_a_row_for_each_failing_call() -> None:
    section = (
        DOCUMENT.read_text()
        .partition("\n## Each system call that can fail\n")[2]
        .partition("\n## ")[0]
    )
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    rows = {
        (row[0].strip("`"), row[1]): row[2]
        for row in cells
        if len(row) == 3 and row[0].startswith("`")
    }
    assert {(case.call, case.where) for case in CASES} == rows.keys()
    for case in CASES:
        assert (case.effect == FAILS) == rows[case.call, case.where].startswith(FAILS), case.name


def open_refused_then_recovered(link: Link, path: str) -> None:
    """The zeros of the first recovery do not reach the disk; the second recovery finds them in
    memory.
    """
    state = own_state()
    fail(state, "fsync file", errno.EIO, name="log/0")
    with pytest.raises(IOFailureError):
        open_log(path, None, OPTIONS)
    fail(state, "fsync file", 0)
    log, _ = open_log(path, None, OPTIONS)
    log.append(b"v", sync=True)
    log.close()


def test_recovery_after_a_failed_recovery_zeroes_durably(
    path: Path, shim: Shim, start: Callable[..., Child]
) -> None:
    log, _ = open_log(str(path), None, OPTIONS)
    log.append(VALUE, sync=True)
    end = log.tail_position
    tear(Scene(path, mmap.mmap(-1, 1 << 12)), log)
    shim.shadow.settle(path)
    segment = image.segment_path(path, end)
    assert shim.shadow.durable(segment)[end + 4096 :].strip(b"\0")
    start(open_refused_then_recovered, str(path), environment=shim.environment(shadow=True)).join()
    assert not shim.shadow.durable(segment)[end + 4096 :].strip(b"\0")


def test_archive_with_failing_folder_deletes_no_segment(
    path: Path, shim: Shim, start: Callable[..., Child]
) -> None:
    """An archived segment from a killed run is deleted from the log only after the archive folder
    is synced.
    """
    pytest.importorskip("zstandard")
    child = start(archive_under_failing_folder, str(path), environment=shim.environment())
    child.join()


def archive_under_failing_folder(link: Link, path: str) -> None:
    state = own_state()
    target = Store(Path(path).with_name("archive"))
    log, _ = open_log(path, None, OPTIONS)
    fill(Scene(Path(path), state), log)
    log.close()
    archive_segments(path, target, keep=True)
    before = len(image.segments(Path(path)))
    fail(state, "fsync directory", errno.EIO, name="archive")
    for _ in range(2):
        with pytest.raises(IOFailureError):
            archive_segments(path, target)
        assert len(image.segments(Path(path))) == before
    fail(state, "fsync directory", 0)
    assert archive_segments(path, target).segments


def create_below_new_directories(link: Link, path: str) -> None:
    """The parent of each new directory is synced; if that fails, no log is created."""
    state = own_state()
    for after in range(3):
        fail(state, "fsync directory", errno.EIO, after=after)
        with pytest.raises(IOFailureError):
            commitlog.open(f"{path}/{after}/b/c", **tuned(OPTIONS))
        fail(state, "fsync directory", 0)
        assert not Path(path, *[str(after), "b", "c"][: after + 1]).exists()
        commitlog.open(f"{path}/{after}/b/c", **tuned(OPTIONS)).close()


def test_names_of_new_directories_are_synced(
    path: Path, shim: Shim, start: Callable[..., Child]
) -> None:
    path.mkdir()
    start(create_below_new_directories, str(path), environment=shim.environment()).join()
