"""Places of logs and archives: local paths, and URIs that `pyarrow.fs` supports. A place with a
credential in it is refused.
"""

from __future__ import annotations

import glob
import os
import re
import urllib.parse
from typing import Any

from commitlog.base.regular_file import open_regular
from commitlog.errors import CommitLogError, InvalidOptionError, IOFailureError

_SEGMENT = re.compile(r"^([0-9]{20})\.seg(\.zst)?$")
_HADOOP = ("hdfs://", "viewfs://")
_URI = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")
_SECRET = re.compile(
    r"key|secret|token|password|passwd|credential|signature|^sig$|^sas", re.IGNORECASE
)


def is_uri(place: str) -> bool:
    """Return whether a place is a URI. If not, it is a path."""
    return _URI.match(place) is not None


def normalized(place: str) -> str:
    """Return a place as executors get it: an absolute path, or a URI without a slash at its end."""
    if not place or "\0" in place:
        raise InvalidOptionError(f"path is {place!r}, which names no log: correct it")
    if place.startswith("file:"):
        return os.path.abspath(urllib.parse.unquote(urllib.parse.urlsplit(place).path))
    if not is_uri(place):
        return os.path.abspath(place)
    parts = urllib.parse.urlsplit(place)
    asked = [name for name, _ in urllib.parse.parse_qsl(parts.query, keep_blank_values=True)]
    if parts.password is not None or any(_SECRET.search(name) for name in asked):
        raise InvalidOptionError(
            f"the URI {shown(place)} has a credential in it, and Spark distributes and logs URIs: "
            "remove it from the URI, and set it in the environment of the driver and the executors "
            "(AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, ...)"
        )
    return urllib.parse.urlunsplit(parts._replace(path=parts.path.rstrip("/")))


def shown(place: str) -> str:
    """Return a URI without credentials and query, for messages."""
    parts = urllib.parse.urlsplit(place)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def join(place: str, name: str) -> str:
    if not is_uri(place):
        return os.path.join(place, name)
    parts = urllib.parse.urlsplit(place)
    return urllib.parse.urlunsplit(parts._replace(path=f"{parts.path}/{urllib.parse.quote(name)}"))


def parent(place: str) -> str:
    if not is_uri(place):
        return os.path.dirname(place)
    parts = urllib.parse.urlsplit(place)
    return urllib.parse.urlunsplit(parts._replace(path=parts.path.rpartition("/")[0]))


def name_of(place: str) -> str:
    """Return the last part of a place."""
    if not is_uri(place):
        return os.path.basename(place)
    parts = urllib.parse.urlsplit(place)
    return urllib.parse.unquote(parts.path.rpartition("/")[2]) or parts.netloc


def segment_of(name: str) -> tuple[int, bool] | None:
    """Return the base position in a segment file's name and whether the file is compressed; None
    for another file.
    """
    found = _SEGMENT.match(name)
    return None if found is None else (int(found[1]), found[2] is not None)


def expanded(place: str) -> list[str]:
    """Return the paths that match a pattern with ``*``, ``?`` or ``[``, or the place itself. In a
    URI, ``?`` begins the query.
    """
    if is_uri(place):
        if glob.has_magic(urllib.parse.urlsplit(place).path):
            raise InvalidOptionError(
                f"a pattern must be a local path, not {shown(place)}: name the folders, or use "
                "subscribePattern"
            )
        return [place]
    return (
        sorted(glob.glob(place)) if glob.has_magic(place) and not os.path.exists(place) else [place]
    )


def file_system(uri: str) -> tuple[Any, str]:
    """Return pyarrow's file system of a URI, and the path in it."""
    import pyarrow as pa
    import pyarrow.fs

    try:
        system, path = pyarrow.fs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise InvalidOptionError(f"pyarrow cannot open {shown(uri)}: {error}") from None
    except OSError as error:
        raise _unreachable(uri, error) from error
    return system, path


def _unreachable(uri: str, error: OSError) -> IOFailureError:
    why = str(error).splitlines()[0]
    if uri.startswith(_HADOOP):
        why += (
            "; pyarrow needs Hadoop's libhdfs: set JAVA_HOME, HADOOP_HOME and CLASSPATH on the "
            "driver and the executors"
        )
    return IOFailureError(
        f"the file system cannot be reached: {why}", path=shown(uri), errno=error.errno
    )


def open_file(place: str, *, buffered: bool = True) -> Any:
    """Open a file for reading at any offset. `buffered` has no effect on a URI."""
    try:
        if not is_uri(place):
            return open(open_regular(place, follow=True), "rb", buffering=-1 if buffered else 0)
        system, path = file_system(place)
        return system.open_input_file(path)
    except (FileNotFoundError, CommitLogError):
        raise
    except OSError as error:
        raise IOFailureError(
            f"the file cannot be opened: {error}", path=place, errno=error.errno
        ) from error


def names(place: str) -> dict[str, bool] | None:
    """Map each name in a folder to whether it is a folder; None if the folder does not exist."""
    if not is_uri(place):
        try:
            with os.scandir(place) as entries:
                return {entry.name: entry.is_dir() for entry in entries}
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise IOFailureError(
                f"the folder cannot be read: {error.strerror}", path=place, errno=error.errno
            ) from error
    import pyarrow.fs

    system, path = file_system(place)
    try:
        found = system.get_file_info(pyarrow.fs.FileSelector(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise IOFailureError(
            f"the folder cannot be read: {error}", path=shown(place), errno=error.errno
        ) from error
    return {info.base_name: info.type == pyarrow.fs.FileType.Directory for info in found}
