from __future__ import annotations

import ctypes
import gc
import os
import resource
import subprocess
from pathlib import Path

import pytest

from commitlog._kernel.memory import Memory

KERNEL = Path(__file__).resolve().parents[2] / "commitlog" / "_kernel" / "c"
SIZE = 1 << 20
PAGE = os.sysconf("SC_PAGESIZE")


def minor_faults() -> int:
    """Return the minor faults of this thread."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt


def minor_faults_of_storing(memory: Memory) -> int:
    before = minor_faults()
    with memoryview(memory) as view:
        for at in range(0, memory.size, PAGE):
            view[at] = 1
    return minor_faults() - before


def test_fresh_memory_is_zero_and_writable() -> None:
    memory = Memory(SIZE)
    with memoryview(memory) as view:
        assert (len(view), view.readonly, view.format) == (SIZE, False, "B")
        assert view.tobytes() == bytes(SIZE)
        view[-3:] = b"end"
        assert bytes(view[-3:]) == b"end"
    assert memory.size == len(memory) == SIZE
    memory.close()


@pytest.mark.parametrize("method", ["populate", "touch"])
def test_populated_memory_keeps_bytes_and_stores_without_fault(method: str) -> None:
    pages = 16 << 20
    fresh, populated = Memory(pages), Memory(pages)
    with memoryview(populated) as view:
        view[5 * PAGE : 5 * PAGE + 4] = b"kept"
        getattr(populated, method)()
        assert bytes(view[5 * PAGE : 5 * PAGE + 4]) == b"kept"
    minor_faults_of_storing(
        # After a fork, the interpreter's own pages fault once.
        Memory(PAGE)
    )
    without, with_faults = minor_faults_of_storing(populated), minor_faults_of_storing(fresh)
    # One fault may serve many pages of a large folio, so the bound is relative.
    assert without <= 8 < with_faults
    fresh.close()
    populated.close()


@pytest.mark.parametrize("refusal", [22, 12])
def test_madvise_refusal_touches_pages_for_einval_only(tmp_path: Path, refusal: int) -> None:
    """Compile memory.c with a madvise that fails, as no current Linux does for this advice."""
    fake = tmp_path / "fake.c"
    fake.write_text(
        "#include <errno.h>\n#include <stddef.h>\n"
        "int refused_madvise(void *at, size_t size, int advice) "
        f"{{ (void)at; (void)size; (void)advice; errno = {refusal}; return -1; }}\n"
        '#define madvise refused_madvise\n#include "memory.c"\n'
    )
    library_path = tmp_path / "fake.so"
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-iquote", str(KERNEL)]
    subprocess.run(
        [os.environ.get("CC", "gcc"), *flags, str(fake), "-o", str(library_path)], check=True
    )
    library = ctypes.CDLL(str(library_path), use_errno=True)
    area = (ctypes.c_uint64 * 4)()  # cl_memory: bytes, size, mapped, mapped_size
    pages = 16 << 20
    assert library.cl_memory_map(area, ctypes.c_size_t(pages)) == 0
    before = minor_faults()
    code = library.cl_memory_populate(area)
    faults = minor_faults() - before
    assert (code, faults > 8) == ((0, True) if refusal == 22 else (-1, False))
    assert library.cl_memory_unmap(area) == 0


def test_zero_clears_only_the_range() -> None:
    memory = Memory(SIZE)
    with memoryview(memory) as view:
        view[:] = b"\xff" * SIZE
        memory.zero(100, 5000)
        assert view.tobytes() == b"\xff" * 100 + bytes(4900) + b"\xff" * (SIZE - 5000)
    memory.zero(0, SIZE)
    memory.zero(SIZE, SIZE)
    for start, stop in [(-1, 5), (5, 4), (0, SIZE + 1)]:
        with pytest.raises(ValueError, match="cannot zero"):
            memory.zero(start, stop)
    memory.close()


def test_memory_in_forked_child_is_shared() -> None:
    memory = Memory(SIZE)
    with memoryview(memory) as view:
        view[:6] = b"parent"
        child = os.fork()
        if child == 0:
            seen = bytes(view[:6])
            view[:6] = b"child!"
            os._exit(0 if seen == b"parent" else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert bytes(view[:6]) == b"child!"
    memory.close()


@pytest.mark.parametrize("offset", [0, 4096, 8])
def test_descriptor_mapping_at_any_offset_writes_to_file(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(offset + SIZE))
    descriptor = os.open(path, os.O_RDWR)
    memory = Memory(SIZE, descriptor, offset)
    os.close(descriptor)
    memory.populate()
    with memoryview(memory) as view:
        view[:5] = b"first"
        view[-4:] = b"last"
    memory.close()
    data = path.read_bytes()
    assert data[:offset] == bytes(offset)
    assert (data[offset : offset + 5], data[-4:]) == (b"first", b"last")


def test_mapping_past_end_of_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(SIZE - 1))
    with path.open("r+b") as file:
        for size, offset in [(SIZE, 0), (SIZE - PAGE, PAGE), (1, SIZE)]:
            with pytest.raises(ValueError, match="ends before byte"):
                Memory(size, file.fileno(), offset)


def test_wrong_arguments_and_failed_mappings_raise() -> None:
    with pytest.raises(ValueError, match="at least 1 byte"):
        Memory(0)
    with pytest.raises(ValueError, match="file descriptor"):
        Memory(SIZE, offset=4096)
    with pytest.raises(OSError, match="cannot map") as caught:
        Memory(1 << 62)
    assert caught.value.errno == 12
    descriptor = os.open("/dev/null", os.O_RDONLY)
    os.close(descriptor)
    with pytest.raises(OSError, match="cannot map") as caught:
        Memory(SIZE, descriptor)
    assert caught.value.errno == 9


def test_close_with_open_view_is_refused_then_idempotent() -> None:
    memory = Memory(SIZE)
    view = memoryview(memory)
    part = view[10:20]
    assert memory.holds == 1
    with pytest.raises(BufferError, match="1 views or users"):
        memory.close()
    part[:] = b"still here"
    part.release()
    view.release()
    memory.close()
    memory.close()
    assert memory.closed
    with pytest.raises(BufferError, match="closed"):
        memoryview(memory)
    for call in (
        memory.populate,
        memory.touch,
        memory.lock,
        memory.unlock,
        lambda: memory.zero(0, 1),
    ):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_collected_memory_is_unmapped() -> None:
    def mapped() -> int:
        return sum("/dev/zero" in line for line in Path("/proc/self/maps").read_text().splitlines())

    gc.collect()  # garbage of other tests must not be unmapped between the counts
    before = mapped()
    memory = Memory(SIZE)
    assert mapped() == before + 1
    view = memoryview(memory)
    del memory
    assert mapped() == before + 1
    del view
    assert mapped() == before


def test_lock_and_unlock_change_locked_bytes_of_process() -> None:
    def locked() -> int:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmLck:")[1].split()[0]) * 1024

    memory = Memory(64 << 10)
    gc.collect()
    before = locked()
    memory.lock()
    assert locked() == before + memory.size
    memory.unlock()
    assert locked() == before
    memory.close()
