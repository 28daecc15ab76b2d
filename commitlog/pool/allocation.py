"""Allocate a pool's buffers: check the free memory, allocate, pre-fault and lock them."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import resource

from commitlog.base.free_memory import describe_size, require_free_memory
from commitlog.base.later_log import LaterLog
from commitlog.base.path import translate_errors
from commitlog.errors import PoolMemoryError
from commitlog.pool.buffer import PoolBuffer
from commitlog.pool.pool_options import PoolOptions
from commitlog.pool.shm import HEADER_SIZE, ShmBuffer
from commitlog.pool.shm_survey import SHM_FOLDER, sweep_orphans


def allocate_buffers(options: PoolOptions, count: int, log: LaterLog) -> list[PoolBuffer]:
    """Allocate `count` zeroed, pre-faulted buffers, or none."""
    where = SHM_FOLDER if options.backing == "shm" else "/proc/meminfo"
    with translate_errors(
        where,
        f"allocate {count} pool buffers",
        permission="make it writable for this user, or use backing='anonymous'",
    ):
        return _allocate(options, count, log)


def _allocate(options: PoolOptions, count: int, log: LaterLog) -> list[PoolBuffer]:
    shared = options.backing == "shm"
    if shared:
        sweep_orphans(log)
    each = options.buffer_size + (HEADER_SIZE if shared else 0)
    require_free_memory(
        count * each,
        f"a pool of {count} buffers of {describe_size(options.buffer_size)} each",
        shared=shared,
    )
    kind = ShmBuffer if shared else PoolBuffer
    made: list[PoolBuffer] = []
    try:
        for _ in range(count):
            made.append(kind.allocate(options.buffer_size))
            _populate(made[-1])
        _lock(made, options, log)
    except BaseException:
        destroy_buffers(made)
        raise
    return made


def destroy_buffers(buffers: list[PoolBuffer]) -> None:
    """Release all buffers, even if releasing one of them raises."""
    with contextlib.ExitStack() as stack:
        for buffer in buffers:
            stack.callback(buffer.destroy)


def _populate(buffer: PoolBuffer) -> None:
    try:
        buffer.memory.populate()
    except OSError as error:
        if error.errno not in (errno.ENOMEM, errno.EFAULT):
            raise
        raise PoolMemoryError(
            f"memory ran out while a pool buffer of {buffer.size} bytes was pre-faulted ({error}): "
            "use fewer or smaller buffers",
            wanted=buffer.size,
        ) from error


def _lock(buffers: list[PoolBuffer], options: PoolOptions, log: LaterLog) -> None:
    if options.lock_memory == "off":
        return
    for number, buffer in enumerate(buffers):
        try:
            buffer.memory.lock()
            buffer.locked = True
        except OSError as error:
            refused = (
                f"only {number} of {len(buffers)} pool buffers could be locked into RAM "
                f"({os.strerror(error.errno or 0)}): "
                f"they need {describe_size(len(buffers) * options.buffer_size)}, RLIMIT_MEMLOCK "
                f"is {_memlock_limit()}"
            )
            if options.lock_memory == "require":
                raise PoolMemoryError(
                    f"{refused}; raise that limit or use lock_memory='try'",
                    wanted=len(buffers) * options.buffer_size,
                ) from error
            log.note(
                logging.WARNING,
                "%s; the others may be swapped out, which stalls appends",
                refused,
            )
            return


def _memlock_limit() -> str:
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return "without limit" if limit == resource.RLIM_INFINITY else describe_size(limit)
