"""Where logs and archives are: paths of this machine, and URIs of what `pyarrow.fs` can reach. No place ever carries a secret."""

from __future__ import annotations

import glob
import os
import re
import urllib.parse
from typing import Any

from commitlog.errors import InvalidOptionError, IOFailureError
from commitlog.regular_file import open_regular

_URI = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")
_SECRET = re.compile(r"key|secret|token|password|passwd|credential|signature|^sig$|^sas", re.IGNORECASE)


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
            f"the URI {shown(place)} has a credential in it, and Spark sends URIs about and logs them: leave it out, and give it to the "
            "driver and the executors in their environment (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, ...)"
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


def expanded(place: str) -> list[str]:
    """What a pattern with ``*``, ``?`` or ``[`` stands for, or the place itself."""
    if not glob.has_magic(place) or os.path.exists(place):
        return [place]
    if is_uri(place):
        raise InvalidOptionError(f"patterns are for local paths, not for {shown(place)}: name the folders, or use subscribePattern")
    return sorted(glob.glob(place))


def _file_system(uri: str) -> tuple[Any, str]:
    import pyarrow as pa
    import pyarrow.fs

    try:
        system, path = pyarrow.fs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise InvalidOptionError(f"pyarrow does not reach {shown(uri)}: {error}") from None
    return system, path


def open_file(place: str) -> Any:
    """A file to read from any place in it.

    Raises
    ------
    FileNotFoundError
        It is not there.
    IOFailureError
        It cannot be opened.
    """
    try:
        if not is_uri(place):
            return open(open_regular(place, follow=True), "rb")
        system, path = _file_system(place)
        return system.open_input_file(path)
    except (FileNotFoundError, IOFailureError):
        raise
    except OSError as error:
        raise IOFailureError(f"the file cannot be opened: {error}", path=place, errno=error.errno) from error


def names(place: str) -> dict[str, bool] | None:
    """What is in a folder, and whether each is a folder; None where there is no such folder."""
    if not is_uri(place):
        try:
            with os.scandir(place) as entries:
                return {entry.name: entry.is_dir() for entry in entries}
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise IOFailureError(f"the folder cannot be read: {error.strerror}", path=place, errno=error.errno) from error
    import pyarrow.fs

    system, path = _file_system(place)
    try:
        found = system.get_file_info(pyarrow.fs.FileSelector(path))
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    except OSError as error:
        raise IOFailureError(f"the folder cannot be read: {error}", path=shown(place), errno=error.errno) from error
    return {info.base_name: info.type == pyarrow.fs.FileType.Directory for info in found}
