"""Where logs and archives are: paths of this machine, and URIs of what `pyarrow.fs` can reach. No
place ever carries a secret.
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
    """Whether a place is a URI; else it is a path."""
    return _URI.match(place) is not None


def normalized(place: str) -> str:
    """A place as executors get it: an absolute path, or a URI without a slash at its end.

    Raises
    ------
    InvalidOptionError
        It has a credential in it, which would be sent about and logged; or it names nothing.
    """
    if not place or "\0" in place:
        raise InvalidOptionError(f"path must name a log: {place!r} does not")
    if place.startswith("file:"):
        return os.path.abspath(urllib.parse.unquote(urllib.parse.urlsplit(place).path))
    if not is_uri(place):
        return os.path.abspath(place)
    parts = urllib.parse.urlsplit(place)
    asked = [name for name, _ in urllib.parse.parse_qsl(parts.query, keep_blank_values=True)]
    if parts.password is not None or any(_SECRET.search(name) for name in asked):
        raise InvalidOptionError(
            f"the URI {shown(place)} has a credential in it, and Spark sends URIs about and logs "
            "them: leave it out, and give it to the "
            "driver and the executors in their environment (AWS_ACCESS_KEY_ID, "
            "GOOGLE_APPLICATION_CREDENTIALS, ...)"
        )
    return urllib.parse.urlunsplit(parts._replace(path=parts.path.rstrip("/")))


def shown(place: str) -> str:
    """A URI without what must not be seen."""
    parts = urllib.parse.urlsplit(place)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def join(place: str, name: str) -> str:
    """A name inside a place."""
    if not is_uri(place):
        return os.path.join(place, name)
    parts = urllib.parse.urlsplit(place)
    return urllib.parse.urlunsplit(parts._replace(path=f"{parts.path}/{urllib.parse.quote(name)}"))


def parent(place: str) -> str:
    """What a place is in."""
    if not is_uri(place):
        return os.path.dirname(place)
    parts = urllib.parse.urlsplit(place)
    return urllib.parse.urlunsplit(parts._replace(path=parts.path.rpartition("/")[0]))


def name_of(place: str) -> str:
    """The last part of a place."""
    if not is_uri(place):
        return os.path.basename(place)
    parts = urllib.parse.urlsplit(place)
    return urllib.parse.unquote(parts.path.rpartition("/")[2]) or parts.netloc


def segment_of(name: str) -> tuple[int, bool] | None:
    """The base position that a segment file is named by, and whether it is compressed; None for
    another file.
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
                f"patterns are for local paths, not for {shown(place)}: name the folders, or use "
                "subscribePattern"
            )
        return [place]
    return (
        sorted(glob.glob(place)) if glob.has_magic(place) and not os.path.exists(place) else [place]
    )


def _file_system(uri: str) -> tuple[Any, str]:
    import pyarrow as pa
    import pyarrow.fs

    try:
        system, path = pyarrow.fs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise InvalidOptionError(f"pyarrow does not reach {shown(uri)}: {error}") from None
    except OSError as error:
        raise _unreachable(uri, error) from error
    return system, path


def _unreachable(uri: str, error: OSError) -> IOFailureError:
    why = str(error).splitlines()[0]
    if uri.startswith(_HADOOP):
        why += (
            "; pyarrow needs Hadoop's libhdfs for it: set JAVA_HOME, HADOOP_HOME and "
            "CLASSPATH on the driver and the executors"
        )
    return IOFailureError(
        f"the file system cannot be reached: {why}", path=shown(uri), errno=error.errno
    )


def open_file(place: str, *, buffered: bool = True) -> Any:
    """Open a file for reading at any offset. Only a local one can be opened without a buffer.

    Raises
    ------
    FileNotFoundError
        It is not there.
    IOFailureError
        It cannot be opened.
    """
    try:
        if not is_uri(place):
            return open(open_regular(place, follow=True), "rb", buffering=-1 if buffered else 0)
        system, path = _file_system(place)
        return system.open_input_file(path)
    except (FileNotFoundError, CommitLogError):
        raise
    except OSError as error:
        raise IOFailureError(
            f"the file cannot be opened: {error}", path=place, errno=error.errno
        ) from error


def names(place: str) -> dict[str, bool] | None:
    """What is in a folder, and whether each is a folder; None where there is no such folder."""
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

    system, path = _file_system(place)
    try:
        found = system.get_file_info(pyarrow.fs.FileSelector(path))
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    except OSError as error:
        raise IOFailureError(
            f"the folder cannot be read: {error}", path=shown(place), errno=error.errno
        ) from error
    return {info.base_name: info.type == pyarrow.fs.FileType.Directory for info in found}
