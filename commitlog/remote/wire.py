"""Addresses of served logs, and the messages of JSON that a server and its clients exchange over
Arrow Flight.
"""

from __future__ import annotations

import functools
import ipaddress
import json
import os
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from commitlog._kernel.segments import crc32c
from commitlog.base.extras import imported
from commitlog.errors import InvalidOptionError, ReplicationError

PROTOCOL = 1
HEARTBEAT_S = 0.5
_TEXT_LIMIT = 1 << 24  # bytes of a message
CRC_SIZE = 8
# If a peer, such as a stopped process, does not answer a ping in time, the connection counts as
# lost.
_KEEP_ALIVE_MS = 5_000
_DISTRUSTED = re.compile(
    r"certificate verify failed: [\w ()-]+|Peer name \S+ is not in peer certificate"
)
_MESSAGE_LIMIT = (1 << 30) + (1 << 20)  # the largest segment, and what Arrow adds
OPTIONS = [
    ("grpc.keepalive_time_ms", _KEEP_ALIVE_MS),
    ("grpc.keepalive_timeout_ms", _KEEP_ALIVE_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", _MESSAGE_LIMIT),
]
# gRPC's event engine hands each message to a thread of its own; without it, the thread that waits
# for a message polls. An unknown name would be an error on standard error.
_POLLERS_VARIABLE = "GRPC_EXPERIMENTS"
_POLLERS = "-event_engine_client,-event_engine_listener"
_POLLERS_KNOWN = range(22, 27)  # versions of pyarrow
_NO_SERVER = "grpc+tcp://127.0.0.1:1"


@functools.cache
def flight() -> Any:
    """Import Arrow Flight; let its gRPC poll in the threads that wait."""
    found = imported("pyarrow.flight", "a log of another machine", "arrow")
    if pyarrow_version() in _POLLERS_KNOWN and _POLLERS_VARIABLE not in os.environ:
        os.environ[_POLLERS_VARIABLE] = _POLLERS
        try:
            found.FlightClient(_NO_SERVER).close()  # gRPC reads the variable; connects nowhere
        finally:
            os.environ.pop(_POLLERS_VARIABLE, None)  # not for child processes
    return found


def pyarrow_version() -> int:
    """Return the first number of pyarrow's version."""
    return int(imported("pyarrow", "a log of another machine", "arrow").__version__.split(".")[0])


@dataclass(frozen=True)
class Address:
    """The address of a server, and the name of one of its logs."""

    host: str
    port: int
    encrypted: bool
    log: str = ""

    @property
    def location(self) -> str:
        """The address as Flight has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"grpc+{'tls' if self.encrypted else 'tcp'}://{host}:{self.port}"

    def check_plain(self, plain_text: bool) -> None:
        """Refuse to send records and the token without TLS to another machine."""
        if not (self.encrypted or plain_text or _is_loopback(self.host)):
            raise InvalidOptionError(
                f"without TLS, {self.host} would send records and the token in plain text: use "
                "TLS, or pass plain_text=True in a network that you trust"
            )


def address_of(url: str) -> Address:
    """Parse `tls://host:port/log`, or `tcp://`."""
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        scheme, host, port = "", None, None
    if scheme not in ("tls", "tcp") or not host or not port:
        raise InvalidOptionError(
            f"a log on another machine is tls://HOST:PORT/LOG, or tcp:// without TLS, not {url!r}"
        )
    return Address(host, port, scheme == "tls", parts.path.strip("/"))


def listen_of(listen: str, encrypted: bool) -> Address:
    """Parse `host:port`; port 0 takes a free one."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    if not host or not (port.isdecimal() and int(port) < 1 << 16):
        raise InvalidOptionError(f"listen must be HOST:PORT, not {listen!r}")
    return Address(host, int(port), encrypted)


def distrusted(error: Exception, url: str) -> ReplicationError | None:
    """Return the error for a certificate that is refused; None if another one failed the call.

    gRPC reports it as a server that is out of reach, and tries again.
    """
    found = _DISTRUSTED.search(str(error))
    if found is None:
        return None
    return ReplicationError(
        f"the certificate of {url} is refused: {found[0]}; correct it at the server, or trust its "
        "issuer with tls_roots, --tls-roots or COMMITLOG_TLS_ROOTS"
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def text(content: dict[str, Any]) -> bytes:
    """Return a message of JSON with the version of the protocol, behind its CRC in hexadecimal."""
    body = json.dumps({"protocol": PROTOCOL, **content}).encode()
    return b"%08x%s" % (crc32c(body), body)


def content_of(message: bytes, peer: str) -> dict[str, Any]:
    """Parse a message of JSON from a peer; refuse another version and anything else."""
    content = None
    crc, body = message[:CRC_SIZE], message[CRC_SIZE:]
    # A digit that was damaged on its way could acknowledge what no copy has.
    if len(message) <= _TEXT_LIMIT and crc == b"%08x" % crc32c(body):
        try:
            content = json.loads(body)
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


def number_of(content: dict[str, Any], name: str, peer: str) -> int:
    """Return a number of at least 0 from a message."""
    value = content.get(name)
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ReplicationError(f"{peer} sent no usable {name!r}")
    return value
