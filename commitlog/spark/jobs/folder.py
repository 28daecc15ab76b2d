"""Folder: a directory wherever Spark can write, through Hadoop's file systems."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from commitlog.errors import IOFailureError
from commitlog.spark.jobs.classic import check_classic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Folder:
    """A directory.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        A classic one: Spark Connect gives no way to Hadoop's file systems.
    path : str
        As Spark's writers take it: a path, or a URI.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        check_classic(spark, "an export")
        session: Any = spark
        self._jvm = session._jvm
        self.path = path.rstrip("/") or "/"
        with self._telling():
            self._root = self._jvm.org.apache.hadoop.fs.Path(self.path)
            self._system: Any = self._root.getFileSystem(spark._jsc.hadoopConfiguration())

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """What Hadoop refuses, told as one of our errors."""
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
        """What is in a folder below this one; nothing where it is not there."""
        with self._telling():
            place = self._at(folder)
            if not self._system.exists(place):
                return []
            return sorted(status.getPath().getName() for status in self._system.listStatus(place))

    def files(self, folder: str) -> list[str]:
        """All files below a folder, as paths from there."""
        with self._telling():
            place = self._at(folder)
            if not self._system.exists(place):
                return []
            found, start = [], len(self._system.makeQualified(place).toUri().getPath()) + 1
            walk = self._system.listFiles(place, True)
            while walk.hasNext():
                found.append(str(walk.next().getPath().toUri().getPath())[start:])
            return sorted(found)

    def read(self, name: str) -> str:
        """A small file's text."""
        with self._telling():
            stream = self._system.open(self._at(name))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def create(self, name: str, text: str) -> None:
        """Put a new small file in place, whole."""
        temporary = f"{name}.tmp"
        with self._telling():
            stream = self._system.create(self._at(temporary), True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()
        self.move(temporary, name)

    def move(self, source: str, target: str) -> None:
        """Give a file another place."""
        with self._telling():
            place = self._at(target)
            self._system.mkdirs(place.getParent())
            if not self._system.rename(self._at(source), place):
                raise IOFailureError(f"{source} cannot be moved to {target}", path=self.path)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it."""
        with self._telling():
            self._system.delete(self._at(name), True)
