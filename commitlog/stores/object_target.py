"""ObjectTarget: the folder of an archive in an object store, by obstore."""

from __future__ import annotations

import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, cast

from commitlog.base.extras import imported
from commitlog.base.failpoint import failpoint
from commitlog.base.host import host
from commitlog.errors import InvalidOptionError

# Addresses that obstore opens. pyarrow and fsspec open others.
SCHEMES = ("s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss")
_READ_BYTES = 1 << 20
# `_SILENT_S`: until the store answers, and between two pieces of a body. obstore waits between the
# tries of one call, longer each time.
_CONNECT_S, _SILENT_S, _REQUEST_S, _TRIES_S, _TRIES_MOST = 5, 60, 3600, 60, 8
_PAUSE_S, _PAUSE_MOST_S = 0.1, 15
# An upload in parts waits longer for its store, because it would begin again; each part is small.
_UPLOAD_TRIES_S, _UPLOAD_TRIES_MOST = 300, 50
_WHOLE_MOST = 8 << 20  # bytes in one request
_TEMPORARY = ".tmp"
_CHUNK, _CHUNKS_AT_A_TIME = 5 << 20, 2
_FORBIDDEN = "status code: 403"
_METADATA = "//169.254.169.254"  # where a machine in a cloud gets credentials


class ObjectTarget:
    """A prefix of an object store. An object appears whole or not at all."""

    conditional = True

    def __init__(self, store: Any, name: str, address: str | None = None) -> None:
        self.name = name.rstrip("/")  # for messages
        self.requests = 0  # calls so far, for figures
        self._store = store
        self._address = address
        self._uploader: Any = None
        self._api = _obstore()

    @classmethod
    def at(
        cls, address: str, tries_most: int | None = None, tries_s: float | None = None
    ) -> ObjectTarget:
        """Open an address, with the credentials of the environment."""
        from datetime import timedelta

        _obstore()
        on_s3 = address.startswith("s3")
        stores = imported("obstore.store", "an archive at an address", "archive")
        try:
            store = stores.from_url(
                address,
                config={"copy_if_not_exists": "multipart"} if on_s3 else None,
                client_options={
                    # obstore takes the other settings from the environment by itself.
                    "allow_http": os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true"),
                    "connect_timeout": timedelta(seconds=_CONNECT_S),
                    "read_timeout": timedelta(seconds=_SILENT_S),
                    "timeout": timedelta(seconds=_REQUEST_S),
                },
                retry_config={
                    "max_retries": _TRIES_MOST if tries_most is None else tries_most,
                    "retry_timeout": timedelta(seconds=_TRIES_S if tries_s is None else tries_s),
                    "backoff": {
                        "init_backoff": timedelta(seconds=_PAUSE_S),
                        "max_backoff": timedelta(seconds=_PAUSE_MOST_S),
                        "base": 2,
                    },
                },
            )
        except (ValueError, TypeError, _obstore().exceptions.BaseError) as error:
            raise InvalidOptionError(
                f"target must be an address that obstore can open, not {address!r}: "
                f"{_line_of(error)}"
            ) from None
        return cls(store, address, address)

    def single_try(self) -> ObjectTarget:
        """Return this target with a client that tries no request again, if it has an address."""
        return self if self._address is None else self.at(self._address, tries_most=0)

    def names(self) -> list[str]:
        """List the objects, in no order."""
        return list(self.sizes())

    def sizes(self) -> dict[str, int]:
        """Return the size of each object in bytes, by name."""
        with self._asking(self.name):
            found = self._api.list_with_delimiter(self._store)["objects"]
        sizes = {str(each["path"]).rpartition("/")[2]: int(each["size"]) for each in found}
        return {name: size for name, size in sizes.items() if not name.startswith(".")}

    def size(self, name: str) -> int | None:
        """Return the size of an object; None if it is missing."""
        try:
            with self._asking(self.path_of(name)):
                return int(self._api.head(self._store, name)["size"])
        except FileNotFoundError:
            return None

    def open(self, name: str, most: int | None = None) -> BinaryIO:
        """Open an object, to be read once from its beginning; ask for its first bytes only, if
        `most` is given.
        """
        options = {} if most is None else {"range": (0, most)}
        with self._asking(self.path_of(name)):
            pieces = self._api.get(self._store, name, options=options).stream(_READ_BYTES)
        return cast(BinaryIO, io.BufferedReader(_Body(self._received(name, pieces))))

    def _received(self, name: str, pieces: Iterable[Any]) -> Iterator[bytes]:
        with self._translated(self.path_of(name)):
            for piece in pieces:
                yield bytes(piece)

    def path_of(self, name: str) -> str:
        """Return an object's address, for messages."""
        return f"{self.name}/{name}"

    def check(self) -> None:
        """Raise what `put` would, as far as that can be known without writing."""
        self.names()

    def settle(self) -> None:
        """A store reports an object only when it is durable."""

    def put(self, name: str, write: Callable[[BinaryIO], object], *, replace: bool = True) -> bool:
        """Write an object. Without `replace`, return False if there is one of that name.

        If the answer to such a put is lost, obstore puts again, and False may mean that this call
        wrote the object: compare its content.
        """
        import tempfile

        with tempfile.TemporaryFile() as whole:
            write(cast(BinaryIO, whole))
            size = whole.tell()
            whole.seek(0)
            failpoint("archive file written")
            try:
                if size > _WHOLE_MOST and not replace and self._put_in_parts(name, whole):
                    return True
                with self._asking(self.path_of(name)):
                    if replace:
                        self._api.put(self._store, name, whole)
                    else:
                        # Stores have no conditional put in parts.
                        self._api.put(
                            self._store, name, whole.read(), mode="create", use_multipart=False
                        )
            except FileExistsError:
                self._refuse_missing(name)
                return False
            failpoint("archive file renamed")
        return True

    def _put_in_parts(self, name: str, whole: Any) -> bool:
        """Upload a large file in parts under a temporary name, then copy it if there is no object
        of its name; return False if this store cannot do that. What is uploaded stays so while a
        part of it is tried again.
        """
        temporary = f".{name}.{host.random(8).hex()}{_TEMPORARY}"
        if self._uploader is None:
            self._uploader = (
                self._store
                if self._address is None
                else self.at(self._address, _UPLOAD_TRIES_MOST, _UPLOAD_TRIES_S)._store
            )
        try:
            with self._asking(self.path_of(name)):
                self._api.put(
                    self._uploader,
                    temporary,
                    whole,
                    chunk_size=_CHUNK,
                    max_concurrency=_CHUNKS_AT_A_TIME,
                )
            failpoint("object uploaded")
            with self._asking(self.path_of(name)):
                self._api.copy(self._store, temporary, name, overwrite=False)
        except OSError as error:
            if not isinstance(error.__cause__, self._api.exceptions.NotSupportedError):
                raise
            whole.seek(0)
            return False
        finally:
            with contextlib.suppress(OSError):
                self.delete([temporary])
        failpoint("archive file renamed")
        return True

    def sweep(self) -> None:
        """Delete what uploads of killed processes left."""
        with self._asking(self.name):
            found = self._api.list_with_delimiter(self._store)["objects"]
        names = [str(each["path"]).rpartition("/")[2] for each in found]
        left = [name for name in names if name.startswith(".") and name.endswith(_TEMPORARY)]
        if left:
            self.delete(left)

    def _refuse_missing(self, name: str) -> None:
        """Raise if a put was refused although there is no object: the store was busy with another
        request for that name, or has no conditional put.
        """
        try:
            with self._asking(self.path_of(name)):
                self._api.head(self._store, name)
        except FileNotFoundError:
            raise OSError(
                errno.EIO,
                "the store refused a new object although it has none of that name: try again; if "
                "it does so each time, use one that knows If-None-Match",
                self.path_of(name),
            ) from None

    def delete(self, names: list[str]) -> None:
        """Delete objects; a missing one is no error."""
        with self._asking(self.name), contextlib.suppress(FileNotFoundError):
            if names:
                self._api.delete(self._store, names)

    @contextlib.contextmanager
    def _asking(self, path: str) -> Iterator[None]:
        """Count a request, and translate its errors."""
        self.requests += 1
        with self._translated(path):
            yield

    @contextlib.contextmanager
    def _translated(self, path: str) -> Iterator[None]:
        """Translate obstore's errors into an OSError of one line."""
        errors = self._api.exceptions
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
        except OSError:
            raise
        except (errors.AlreadyExistsError, errors.PreconditionError) as error:
            raise FileExistsError(errno.EEXIST, "it exists already", path) from error
        except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
            raise PermissionError(errno.EACCES, _line_of(error), path) from error
        except errors.BaseError as error:
            if _FORBIDDEN in str(error):  # a refused listing is a GenericError
                raise PermissionError(errno.EACCES, _line_of(error), path) from error
            raise OSError(errno.EIO, _line_of(error), path) from error


class _Body(io.RawIOBase):
    """A file over the pieces of an object, as they come."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        taken = self._left[: len(buffer)]
        buffer[: len(taken)] = taken
        self._left = self._left[len(taken) :]
        return len(taken)


def is_object_store(store: object) -> bool:
    """Return whether an object is one of obstore's stores."""
    return type(store).__module__.partition(".")[0] == "obstore"


def _obstore() -> Any:
    return imported("obstore", "an archive at an address", "archive")


def _line_of(error: Exception) -> str:
    text = " ".join(str(error).partition("\n\nDebug source")[0].split()) or type(error).__name__
    if _METADATA in text:
        return f"there are no credentials in the environment or on this machine: {text}"
    return text
