"""Permits: the tokens of a server of logs, and what each of them allows."""

from __future__ import annotations

import hmac
import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from commitlog.base.path import absolute, path_of, translate_errors
from commitlog.base.regular_file import read_small_file
from commitlog.errors import CommitLogError, InvalidOptionError
from commitlog.network.remote.wire import check_token

_logger = logging.getLogger("commitlog.replication")
_SIZE_LIMIT = 1 << 20  # bytes
_RIGHT = re.compile(r"read|follow|(tail|required):([\w@:+.\-]*)")
_ALL = "*"


@dataclass(frozen=True)
class Permit:
    """What a token allows. By default everything in all logs, except for required tailers.

    Attributes
    ----------
    follow : bool
        To follow logs, and to fence them.
    logs : frozenset of str
        The names of the logs that may be read.
    tails : str or None
        Named tailers may be opened, moved and deleted if their names begin with this; None: no one.
    required : bool
        These tailers may be required: then they hold back retention, and by their lag appends.
    """

    follow: bool = True
    logs: frozenset[str] = frozenset((_ALL,))
    tails: str | None = ""
    required: bool = False

    def refusal(self, log: str, *, follow: bool) -> str | None:
        """Return why a call is refused; None if it is allowed."""
        if not self.logs & {log, _ALL}:
            return f"the token does not allow to read the log {log!r}"
        if follow and not self.follow:
            return f"the token allows to read the log {log!r}, but not to follow it"
        return None

    def tailer_refusal(self, name: str, *, required: bool) -> str | None:
        """Return why a change of a named tailer is refused; None if it is allowed."""
        if self.tails is None:
            return (
                "the token allows to read without a name: for named tailers, the server's file of "
                "tokens has to give it the right tail:PREFIX"
            )
        if not name.startswith(self.tails):
            return (
                f"the token allows tailers whose names begin with {self.tails!r}, and {name!r} "
                "does not"
            )
        if required and not self.required:
            return (
                f"a required tailer holds back the writers of the log, and the token does not "
                f"allow that for {name!r}: the server's file of tokens has to give it the right "
                "required:PREFIX"
            )
        return None


class Permits:
    """The permit of each token. A file of tokens is read again when it has changed."""

    def __init__(
        self, by_token: Mapping[str, Permit], path: str = "", version: tuple[int, ...] = ()
    ) -> None:
        self._path = path
        self._version = version  # of the file when it was read
        self._wanted = _wanted(by_token)

    @classmethod
    def of(cls, token: str | None, tokens: str | os.PathLike[str] | None) -> Self | None:
        """Return the permits of one token, or of a file of tokens; None if neither is given."""
        if tokens is None:
            check_token(token)
            return None if token is None else cls({token: Permit()})
        if token is not None:
            raise InvalidOptionError("pass token or tokens, not both")
        path = absolute(path_of(tokens))
        version = _version_of(path)  # before the file is read: a change meanwhile is seen later
        return cls(_read(path_of(tokens)), path, version)

    @property
    def logs(self) -> frozenset[str]:
        """Return the names of all logs that are named."""
        return frozenset().union(*(permit.logs for _, permit in self._wanted)) - {_ALL}

    def find(self, sent: object) -> Permit | None:
        """Return the permit of the token that a request sent, if there is one."""
        self._read_again()
        value = sent.encode(errors="surrogatepass") if isinstance(sent, str) else b""
        found = None
        # All of them, so that the time does not depend on the tokens.
        for wanted, permit in self._wanted:
            if hmac.compare_digest(value, wanted):
                found = permit
        return found

    def _read_again(self) -> None:
        """Read the file if it has changed. If it is unusable, the tokens are not changed."""
        version = _version_of(self._path) if self._path else ()
        if version == self._version:
            return
        self._version = version
        try:
            self._wanted = _wanted(_read(self._path))
            _logger.info("%s: read the tokens again", self._path)
        except CommitLogError as error:
            _logger.warning("the tokens are not changed: %s", error)


def _wanted(by_token: Mapping[str, Permit]) -> list[tuple[bytes, Permit]]:
    return [(token.encode(), each) for token, each in by_token.items()]


def _version_of(path: str) -> tuple[int, ...]:
    """Return what changes with a file; empty if it cannot be looked up."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _read(path: str) -> dict[str, Permit]:
    """Read a file of tokens."""
    found: dict[str, Permit] = {}
    for number, words in _lines(path):
        token, right, *logs = words if len(words) > 2 else ("", "", "")
        known = _RIGHT.fullmatch(right)
        if known is None:
            raise InvalidOptionError(
                f"line {number} of {path} must be a token, then read, tail:PREFIX, required:PREFIX "
                "or follow, then names of logs or *, with blanks between them"
            )
        check_token(token, f"the token in line {number} of {path}")
        if token in found:
            raise InvalidOptionError(f"line {number} of {path} repeats the token of another line")
        follow = right == "follow"
        tails = "" if follow else known[2]
        found[token] = Permit(follow, frozenset(logs), tails, known[1] == "required")
    if not found:
        raise InvalidOptionError(f"{path} has no token: write a line such as 'TOKEN read orders'")
    return found


def _lines(path: str) -> Iterator[tuple[int, list[str]]]:
    with translate_errors(path, "read the tokens"):
        text = read_small_file(path, _SIZE_LIMIT, follow=True).decode(errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words and not words[0].startswith("#"):
            yield number, words
