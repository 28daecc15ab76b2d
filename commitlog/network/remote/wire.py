"""Addresses of served logs, certificates, and the messages of JSON between a server and clients."""

from __future__ import annotations

import ipaddress
import json
import re
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from commitlog.base.regular_file import read_small_file
from commitlog.errors import (
    ClosedError,
    CommitLogError,
    InvalidOptionError,
    IOFailureError,
    ReplicationError,
)
from commitlog.errors.printable import printable

PROTOCOL = 1
HEARTBEAT_S = 0.5
TEXT_LIMIT = 1 << 24  # bytes of an answer
REQUEST_LIMIT = 1 << 16  # bytes
_PEM_LIMIT = 1 << 20  # bytes
_WHY_LIMIT = 4096  # characters
_TOKEN_LONGEST = 1024
_TOKEN_TEXT = re.compile(f"[!-~]{{1,{_TOKEN_LONGEST}}}")


@dataclass(frozen=True)
class Address:
    """The address of a server, and the name of one of its logs."""

    host: str
    port: int
    encrypted: bool
    log: str = ""

    def check_plain(self, plain_text: bool) -> None:
        """Refuse to send records and the token without TLS to another machine."""
        if not (self.encrypted or plain_text or _is_loopback(self.host)):
            raise InvalidOptionError(
                f"without TLS, {self.host} would send records and the token in plain text: use "
                "TLS. In a network that you trust, servers, followers and promotions may do "
                "without it, by plain_text=True or --plain-text"
            )


def address_of(url: str) -> Address:
    """Parse `tls://host:port/log`, or `tcp://`."""
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
        (host or "").encode("idna")  # as `getaddrinfo` does
    except ValueError:
        scheme, host, port = "", None, None
    log = parts.path.strip("/") if host else ""
    if scheme not in ("tls", "tcp") or not (host and port and log) or "\0" in host:
        raise InvalidOptionError(
            f"a log on another machine is tls://HOST:PORT/LOG, or tcp:// without TLS, not {url!r}"
        )
    return Address(host, port, scheme == "tls", log)


def listen_of(listen: str, encrypted: bool) -> Address:
    """Parse `host:port`; port 0 takes a free one."""
    host, _, port = str(listen).rpartition(":")
    host = host.strip("[]")
    if not host or not (port.isdecimal() and int(port) < 1 << 16):
        raise InvalidOptionError(f"listen must be HOST:PORT, not {listen!r}")
    return Address(host, int(port), encrypted)


def check_token(token: object, name: str = "token") -> None:
    """Refuse a token that protects nothing or cannot be sent: an empty one would let everyone in.

    None means that there is no token. The error does not show the token.
    """
    if token is None or (isinstance(token, str) and _TOKEN_TEXT.fullmatch(token) is not None):
        return
    what = "is empty" if token == "" else "cannot be used"
    raise InvalidOptionError(
        f"{name} {what}: a token is a str of 1 to {_TOKEN_LONGEST} visible ASCII characters, "
        "without blanks. Set it, or to do without one, leave token out and unset COMMITLOG_TOKEN"
    )


def client_context(roots: str | None) -> ssl.SSLContext:
    """Return what a client trusts: the certificates of a file in PEM, or those of the system."""
    try:
        pem = None if roots is None else read_small_file(roots, _PEM_LIMIT, follow=True)
    except OSError as error:
        raise InvalidOptionError(
            f"the certificates to trust cannot be read: {error}; correct tls_roots, --tls-roots or "
            "COMMITLOG_TLS_ROOTS"
        ) from None
    try:
        context = ssl.create_default_context(cadata=None if pem is None else pem.decode())
    except (ValueError, ssl.SSLError):
        raise InvalidOptionError(f"{roots} has no certificates in PEM: correct the path") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def server_context(chain: str, key: str) -> ssl.SSLContext:
    """Return the certificate of a server, from files in PEM; an `OSError` if it is unusable."""
    for path in (chain, key):
        read_small_file(path, _PEM_LIMIT, follow=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # no client resumes a session
    context.load_cert_chain(chain, key, password=lambda: b"")  # else OpenSSL asks the terminal
    return context


def distrusted(error: Exception, url: str) -> ReplicationError | None:
    """Return the error for a certificate that is refused; None for another failure."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return None
    return ReplicationError(
        f"the certificate of {url} is refused: {error.verify_message.rstrip('.')}; correct it at "
        "the server, or trust its issuer with tls_roots, --tls-roots or COMMITLOG_TLS_ROOTS"
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def text(content: dict[str, Any]) -> bytes:
    """Return a message of JSON with the version of the protocol."""
    return json.dumps({"protocol": PROTOCOL, **content}).encode()


END = text({})  # the last message of a stream


def content_of(message: bytes, peer: str) -> dict[str, Any]:
    """Parse a message of JSON from a peer; refuse another version and anything else."""
    try:
        content = json.loads(message)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or type(content.get("protocol")) is not int:
        raise ReplicationError(f"{peer} sent a message that is not of this protocol")
    version = content["protocol"]
    if version != PROTOCOL:
        older = "this side" if version > PROTOCOL else peer
        raise ReplicationError(
            f"{peer} speaks version {version} of the protocol, and this side {PROTOCOL}: upgrade "
            f"commitlog at {older}"
        )
    return content


class RefusedError(Exception):
    """A server refuses a request for good; `by_token` if it does not know the token."""

    def __init__(self, why: str, *, by_token: bool = False) -> None:
        super().__init__(why)
        self.by_token = by_token


# What a request that fails raises. Many a `CommitLogError` is an `OSError`, too.
FAILURES: tuple[type[Exception], ...] = (RefusedError, OSError)
_BUSY, _TOKEN, _REQUEST = "busy", "token", "request"
_PASSING = (ClosedError, IOFailureError)


def refusal(error: Exception) -> bytes:
    """Return the message that refuses a request because of an error; see `answer_of`."""
    if isinstance(error, RefusedError):
        kind = _TOKEN if error.by_token else _REQUEST
    else:  # a log that is closed may be opened again, and a descriptor may be free again
        final = isinstance(error, CommitLogError) and not isinstance(error, _PASSING)
        kind = _REQUEST if final else _BUSY
    return text({"refused": kind, "why": str(error)[:_WHY_LIMIT]})


def answer_of(message: bytes, peer: str) -> dict[str, Any]:
    """Parse an answer. If it refuses the request, raise `RefusedError`, or `ConnectionError` if
    another try may succeed.
    """
    content = content_of(message, peer)
    kind, why = content.get("refused"), printable(str(content.get("why"))[:_WHY_LIMIT])
    if kind == _BUSY:
        raise ConnectionError(why)
    if kind is not None:
        raise RefusedError(why, by_token=kind == _TOKEN)
    return content


def number_of(content: dict[str, Any], name: str, peer: str) -> int:
    """Return a number of at least 0 from a message."""
    value = content.get(name)
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ReplicationError(f"{peer} sent no usable {name!r}")
    return value
