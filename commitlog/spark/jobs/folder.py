"""Folder: a directory in any file system that Spark can write to, through Hadoop."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from commitlog.errors import InvalidOptionError, IOFailureError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_classic(spark: SparkSession, work: str) -> None:
    """Refuse a session of Spark Connect for work that needs the driver's own objects."""
    if not hasattr(spark, "_jvm"):
        raise InvalidOptionError(
            f"{work} needs a classic session, and this is one of Spark Connect: run it on the "
            "machine of Spark's driver"
        )


class Folder:
    def __init__(self, spark: SparkSession, path: str) -> None:
        check_classic(spark, "an export")
        session: Any = spark
        self._jvm = session._jvm
        self.path = path.rstrip("/") or "/"
        with self._translating():
            self._root = self._jvm.org.apache.hadoop.fs.Path(self.path)
            self._system: Any = self._root.getFileSystem(spark._jsc.hadoopConfiguration())

    @contextlib.contextmanager
    def _translating(self) -> Iterator[None]:
        """Translate Hadoop's errors."""
        from py4j.protocol import Py4JJavaError

        try:
            yield
        except Py4JJavaError as error:
            raise IOFailureError(
                f"the file system refused: {error.java_exception}", path=self.path
            ) from None

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.path}/{name}") if name else self._root

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder below this one; none if it does not exist."""
        with self._translating():
            place = self._at(folder)
            if not self._system.exists(place):
                return []
            return sorted(status.getPath().getName() for status in self._system.listStatus(place))

    def files(self, folder: str) -> list[str]:
        """Return all files below a folder, as paths relative to it."""
        with self._translating():
            place = self._at(folder)
            if not self._system.exists(place):
                return []
            found, start = [], len(self._system.makeQualified(place).toUri().getPath()) + 1
            walk = self._system.listFiles(place, True)
            while walk.hasNext():
                found.append(str(walk.next().getPath().toUri().getPath())[start:])
            return sorted(found)

    def read(self, name: str) -> str:
        """Return the text of a small file."""
        with self._translating():
            stream = self._system.open(self._at(name))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def create(self, name: str, text: str) -> None:
        """Create a small file: write a temporary file, then rename it."""
        temporary = f"{name}.tmp"
        with self._translating():
            stream = self._system.create(self._at(temporary), True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()
        self.move(temporary, name)

    def move(self, source: str, target: str) -> None:
        with self._translating():
            place = self._at(target)
            self._system.mkdirs(place.getParent())
            if not self._system.rename(self._at(source), place):
                raise IOFailureError(
                    f"{source} cannot be moved to {target}: check its permissions", path=self.path
                )

    def remove(self, name: str) -> None:
        """Remove a file, or a folder and all files in it."""
        with self._translating():
            self._system.delete(self._at(name), True)
