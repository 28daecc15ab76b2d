"""Cases of failing system calls on the durability path: the rows of the table in
docs/durability.md.
"""

from __future__ import annotations

import errno
from typing import Any

from commitlog.errors import DiskFullError, IOFailureError
from tests.faults.failing_acts import (
    append_durably,
    append_durably_until_refused,
    append_until_refused,
    archive,
    close,
    commit,
    create_another,
    delete_segments,
    delete_tailer,
    fill,
    fill_and_disown,
    grow,
    idle_until_failed,
    join_prepared,
    join_staged,
    make_next_segment,
    name_tailer,
    prune_outside,
    remove,
    reopen,
    require_tailer,
    roll,
    roll_and_seal,
    tear,
)
from tests.faults.failing_scene import (
    FAILS,
    GROWING,
    IGNORED,
    RAISES,
    VALUE,
    Act,
    Case,
    Fault,
)  # fmt: skip


def _all_causes(
    call: str, fault: str, name: str, where: str, act: Act = roll, **options: Any
) -> list[Case]:
    """Return a case for each errno with which creating or growing a file can fail; a full disk
    raises its own error.
    """
    causes = [
        (errno.EIO, IOFailureError),
        (errno.ENOSPC, DiskFullError),
        (errno.EDQUOT, DiskFullError),
    ]
    return [
        Case(call, where, RAISES, (Fault(fault, name, cause),), act, error=error, options=options)
        for cause, error in causes
    ]


SEGMENT, INDEX = ".seg", ".idx"
SHM = {"backing": "shm"}
CASES = [
    # Growing.
    *_all_causes(
        "fallocate",
        "fallocate",
        SEGMENT,
        "more blocks of the first segment",
        grow,
        segment_size=GROWING,
    ),
    # Rolling.
    *_all_causes("fallocate", "fallocate", SEGMENT, "a new segment's blocks"),
    *_all_causes("ftruncate", "ftruncate", SEGMENT, "a log's first segment", create_another),
    *_all_causes("pwrite", "pwrite", SEGMENT, "a new segment's header"),
    *_all_causes("fsync", "fsync file", SEGMENT, "a new segment's file"),
    *_all_causes("rename", "rename", SEGMENT, "a new segment into its place"),
    Case(
        "unlink",
        "a segment that could not be made",
        RAISES,
        (Fault("rename", SEGMENT), Fault("unlink", ".tmp")),
        roll,
    ),
    Case("fsync", "the directory with a new segment", FAILS, (Fault("fsync directory"),), roll),
    Case(
        "fsync",
        "the directory with a new segment",
        FAILS,
        (Fault("fsync directory", cause=errno.ENOSPC),),
        roll,
    ),
    Case(
        "fsync",
        "the directory, with another process's segment",
        FAILS,
        (Fault("fsync directory"),),
        roll,
        make_next_segment,
    ),
    Case(
        "fsync",
        "the directory, ahead of need",
        FAILS,
        (Fault("fsync directory"),),
        append_until_refused,
        roll,
        options={"allocate_ahead": 1},
    ),
    Case(
        "pwrite",
        "the `lock` file: a shared-memory buffer's name",
        RAISES,
        (Fault("pwrite", "lock"),),
        roll,
        pool=SHM,
    ),
    # Committing and flushing.
    Case("pwrite", "a commit", FAILS, (Fault("pwrite", SEGMENT),), commit, pool={}),
    Case("msync", "a flush", FAILS, (Fault("msync"),), append_durably),
    Case(
        "pwrite",
        "the checkpoint, in a flush",
        FAILS,
        (Fault("pwrite", "checkpoint"),),
        append_durably_until_refused,
        options={"checkpoint_interval": 0.001},
    ),
    Case(
        "fdatasync",
        "the checkpoint of an idle log",
        FAILS,
        (Fault("fdatasync", "checkpoint"),),
        idle_until_failed,
        options={"checkpoint_interval": 0.001},
    ),
    # Sealing.
    Case(
        "rename",
        "a segment's index into its place",
        IGNORED,
        (Fault("rename", INDEX),),
        roll_and_seal,
    ),
    # Closing.
    Case(
        "msync",
        "the flush of `close()`",
        FAILS,
        (Fault("msync"),),
        close,
        lambda scene, log: log.append(VALUE),
    ),
    Case("pwrite", "the clean mark", RAISES, (Fault("pwrite", "checkpoint"),), close),
    Case("fdatasync", "the clean mark", RAISES, (Fault("fdatasync", "checkpoint"),), close),
    # Deleting.
    Case(
        "unlink",
        "a segment that is deleted",
        RAISES,
        (Fault("unlink", SEGMENT),),
        delete_segments,
        fill_and_disown,
    ),
    Case(
        "fdatasync",
        "the checkpoint, before a segment is deleted",
        FAILS,
        (Fault("fdatasync", "checkpoint"),),
        delete_segments,
        fill_and_disown,
    ),
    Case(
        "msync",
        "the seal behind a deleted segment",
        FAILS,
        (Fault("msync"),),
        delete_segments,
        fill_and_disown,
    ),
    Case(
        "fsync",
        "the directory without a deleted segment",
        FAILS,
        (Fault("fsync directory"),),
        delete_segments,
        fill_and_disown,
    ),
    # Named tailers.
    Case("fallocate", "a tailer's file", RAISES, (Fault("fallocate", "reader"),), name_tailer),
    Case("pwrite", "a tailer's file", RAISES, (Fault("pwrite", "reader"),), name_tailer),
    Case("fsync", "a tailer's file", RAISES, (Fault("fsync file", "reader"),), name_tailer),
    Case(
        "rename",
        "a tailer's file into its place",
        RAISES,
        (Fault("rename", "reader"),),
        name_tailer,
    ),
    Case(
        "fsync", "the folder `tailers`", RAISES, (Fault("fsync directory", "tailers"),), name_tailer
    ),
    Case("msync", "a tailer's terms", RAISES, (Fault("msync"),), require_tailer),
    Case(
        "unlink",
        "a tailer that is deleted",
        RAISES,
        (Fault("unlink", "reader"),),
        delete_tailer,
        name_tailer,
    ),
]
CLOSED_CASES = [
    # Opening.
    Case(
        "fsync",
        "the directory above a new log",
        RAISES,
        (Fault("fsync directory"),),
        reopen,
        remove,
    ),
    Case("fsync", "`log.json`", RAISES, (Fault("fsync file", "log.json"),), reopen, remove),
    Case(
        "rename",
        "`log.json` into its place",
        RAISES,
        (Fault("rename", "log.json"),),
        reopen,
        remove,
    ),
    Case(
        "fsync",
        "the directory with `log.json`",
        RAISES,
        (Fault("fsync directory", after=1),),
        reopen,
        remove,
    ),
    Case("fallocate", "`cursors`", RAISES, (Fault("fallocate", "cursors"),), reopen, remove),
    Case("fallocate", "`checkpoint`", RAISES, (Fault("fallocate", "checkpoint"),), reopen, remove),
    Case("fsync", "`checkpoint`", RAISES, (Fault("fsync file", "checkpoint"),), reopen, remove),
    Case(
        "pwrite", "the clean mark is taken away", RAISES, (Fault("pwrite", "checkpoint"),), reopen
    ),
    Case(
        "fdatasync",
        "the clean mark is taken away",
        RAISES,
        (Fault("fdatasync", "checkpoint"),),
        reopen,
    ),
    Case(
        "fallocate",
        "the blocks of the segment in use",
        RAISES,
        (Fault("fallocate", SEGMENT),),
        reopen,
    ),
    # Recovering.
    Case(
        "unlink",
        "what a killed process left half made",
        RAISES,
        (Fault("unlink", ".tmp"),),
        reopen,
        tear,
    ),
    Case("pwrite", "a copy of what is cut", RAISES, (Fault("pwrite", ".tmp"),), reopen, tear),
    Case("fsync", "a copy of what is cut", RAISES, (Fault("fsync file", ".tmp"),), reopen, tear),
    Case("rename", "a copy of what is cut", RAISES, (Fault("rename", ".cut"),), reopen, tear),
    Case(
        "unlink",
        "a segment behind the end",
        RAISES,
        (Fault("unlink", SEGMENT, after=1),),
        reopen,
        tear,
    ),
    Case("pwrite", "zeros behind the end", RAISES, (Fault("pwrite", "log/0"),), reopen, tear),
    Case("fsync", "zeros behind the end", RAISES, (Fault("fsync file", "log/0"),), reopen, tear),
    Case("msync", "what is kept", RAISES, (Fault("msync"),), reopen, tear),
    Case(
        "fsync", "the directory after a recovery", RAISES, (Fault("fsync directory"),), reopen, tear
    ),
    # Deleting and archiving beside the writers.
    Case(
        "fsync",
        "the seal behind a deleted segment, by `prune`",
        RAISES,
        (Fault("fsync file", SEGMENT),),
        prune_outside,
        fill_and_disown,
    ),
    Case(
        "unlink",
        "a segment that is deleted, by `prune`",
        RAISES,
        (Fault("unlink", SEGMENT),),
        prune_outside,
        fill_and_disown,
    ),
    Case(
        "fsync",
        "the directory without a deleted segment, by `prune`",
        RAISES,
        (Fault("fsync directory"),),
        prune_outside,
        fill_and_disown,
    ),
    Case("fsync", "an archived segment", RAISES, (Fault("fsync file", ".zst"),), archive, fill),
    Case(
        "rename",
        "an archived segment into its place",
        RAISES,
        (Fault("rename", ".zst"),),
        archive,
        fill,
    ),
    Case(
        "fsync",
        "the archive's folder",
        RAISES,
        (Fault("fsync directory", "archive", after=1),),
        archive,
        fill,
    ),
    # Staging and joining.
    Case("ftruncate", "a staged segment", RAISES, (Fault("ftruncate"),), join_staged),
    Case("pwrite", "a staged segment", RAISES, (Fault("pwrite", ".staged"),), join_staged),
    Case("fsync", "a staged segment", RAISES, (Fault("fsync file", ".staged"),), join_staged),
    Case("rename", "a staged segment", RAISES, (Fault("rename", ".staged"),), join_staged),
    Case(
        "fsync",
        "the folder of staged segments",
        RAISES,
        (Fault("fsync directory", ".staged"),),
        join_staged,
    ),
    Case("fsync", "a join's note", RAISES, (Fault("fsync file", "joining"),), join_prepared),
    Case(
        "rename",
        "a join's note into its place",
        RAISES,
        (Fault("rename", "joining"),),
        join_prepared,
    ),
    Case(
        "rename",
        "a joined segment into its place",
        RAISES,
        (Fault("rename", ".staged"),),
        join_prepared,
    ),
    Case("msync", "the end of the segment before a join", RAISES, (Fault("msync"),), join_prepared),
    Case(
        "pwrite",
        "the checkpoint, in a join",
        RAISES,
        (Fault("pwrite", "checkpoint", after=1),),
        join_prepared,
    ),
    Case(
        "fdatasync",
        "the checkpoint, in a join",
        RAISES,
        (Fault("fdatasync", "checkpoint", after=1),),
        join_prepared,
    ),
    Case("unlink", "a join's note", RAISES, (Fault("unlink", "joining"),), join_prepared),
]
CASES += [case._replace(closed=True) for case in CLOSED_CASES]
BY_NAME = {case.name: case for case in CASES}
