"""ArrowTarget: the folder of an archive in a file system of pyarrow or fsspec."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

from commitlog.base.extras import imported
from commitlog.base.failpoint import failpoint
from commitlog.base.host import host
from commitlog.errors import CommitLogError, IOFailureError

_COPY_BYTES = 1 << 20
# File systems of pyarrow whose rename replaces a file in one step. In the others a file is written
# under its own name.
_RENAMING = ("local", "hdfs")


def pyarrow_fs() -> Any:
    return imported("pyarrow.fs", "an archive at an address", "archive")


@contextlib.contextmanager
def _translated_errors(path: str) -> Iterator[None]:
    """Translate exceptions that are no `OSError`: a file system of fsspec may raise any."""
    try:
        yield
    except (CommitLogError, OSError):
        raise
    except Exception as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise IOFailureError(f"the archive cannot be written: {why}", path=path) from error


class ArrowTarget:
    """A folder in a file system of pyarrow.

    A file is compressed to a temporary local file first. If a rename replaces a file in one step,
    it is copied under another name and renamed; otherwise, as in an object store, it is written
    under its own name. It counts as durable if the store reports its size.
    """

    conditional = False  # two writers may both put a name, and the later one replaces the other's

    def __init__(self, filesystem: Any, path: str, name: str) -> None:
        self.name = name.rstrip("/")
        self._filesystem = filesystem
        self._path = path.rstrip("/")
        self.requests = 0

    def names(self) -> list[str]:
        return list(self.sizes())

    def sizes(self) -> dict[str, int]:
        self.requests += 1
        selector = pyarrow_fs().FileSelector(self._path, allow_not_found=True)
        found = self._filesystem.get_file_info(selector)
        return {
            info.base_name: info.size or 0
            for info in found
            if info.is_file and not info.base_name.startswith(".")
        }

    def size(self, name: str) -> int | None:
        self.requests += 1
        with _translated_errors(self.path_of(name)):
            info = self._filesystem.get_file_info(self._inside(name))
        return int(info.size or 0) if info.is_file else None

    def open(self, name: str, most: int | None = None) -> BinaryIO:
        self.requests += 1
        # By default pyarrow decompresses and compresses files that are named .zst.
        return cast(
            BinaryIO, self._filesystem.open_input_stream(self._inside(name), compression=None)
        )

    def path_of(self, name: str) -> str:
        return f"{self.name}/{name}"

    def check(self) -> None:
        self.names()

    def _inside(self, name: str) -> str:
        return f"{self._path}/{name}"

    def settle(self) -> None:
        """Do nothing: a store reports a file only when it has it."""

    def sweep(self) -> None:
        """Do nothing: what a killed process left begins with a dot, and is no object."""

    def put(self, name: str, write: Callable[[BinaryIO], object], *, replace: bool = True) -> bool:
        """Write a file. Without `replace`, return False if there is one of that name; two writers
        may still both write it, because these stores have no conditional put.
        """
        self.requests += 1
        with _translated_errors(self.path_of(name)):
            if not replace and self._filesystem.get_file_info(self._inside(name)).is_file:
                return False
            self._put(name, write)
        return True

    def _put(self, name: str, write: Callable[[BinaryIO], object]) -> None:
        import shutil
        import tempfile

        self._filesystem.create_dir(self._path, recursive=True)
        with tempfile.TemporaryFile() as whole:
            write(whole)
            size = whole.tell()
            whole.seek(0)
            failpoint("archive file written")
            renames = self._filesystem.type_name in _RENAMING
            written = f".{name}.{host.random(8).hex()}.tmp" if renames else name
            with self._filesystem.open_output_stream(
                self._inside(written), compression=None
            ) as stream:
                shutil.copyfileobj(whole, stream, _COPY_BYTES)
            if renames:
                self._filesystem.move(self._inside(written), self._inside(name))
            failpoint("archive file renamed")
        found = self._filesystem.get_file_info(self._inside(name))
        if not found.is_file or found.size != size:
            raise OSError(f"{self.path_of(name)} has {found.size} bytes after {size} were written")

    def delete(self, names: list[str]) -> None:
        self.requests += len(names)
        for name in names:
            with contextlib.suppress(FileNotFoundError), _translated_errors(self.path_of(name)):
                self._filesystem.delete_file(self._inside(name))
