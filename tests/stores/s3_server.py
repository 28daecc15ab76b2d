"""A server in this process that speaks as much of S3, Google's and Azure's storage as a store uses,
with faults on request.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from xml.sax.saxutils import escape

import pytest

# What a fault does to a request: "500" and other numbers answer so without doing it, "drop" and
# "lost" close the connection before or after it, "hang" never answers, "torn" sends half of the
# body, "slow" sends it in pieces, and "stall" half of it and then nothing more.
Fault = str | None
SLOW_S = 0.02  # between two of the pieces
_PIECES = 32
_HANG_S = 30.0
_MODIFIED = "Thu, 01 Jan 2026 00:00:00 GMT"


class S3Server:
    """A bucket. `fault` is asked for each request, by method and key."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.sent = 0  # bytes of answers
        self.received: list[int] = []  # bytes of each body
        self.connections = 0
        self.parts: dict[str, dict[int, bytes]] = {}  # of uploads that are not complete
        self.blocks: dict[str, dict[str, bytes]] = {}
        self.fault: Callable[[str, str], Fault] = lambda method, key: None
        self.listed: dict[str, bytes] | None = None  # an old state that listings show
        self.knows_conditions = True  # such as If-None-Match
        self.lock = threading.Lock()
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer((host, 0), _Handler)
        self._server.daemon_threads = True
        self._server.bucket = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://{host}:{self._server.server_address[1]}"

    def environment(self) -> dict[str, str]:
        """Return the variables with which obstore finds the bucket."""
        google = {"gcs_base_url": self.url, "disable_oauth": True}
        google |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "eu-central-1",
            "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(google),
            "AZURE_STORAGE_ENDPOINT": self.url,
            "AZURE_STORAGE_ACCOUNT_NAME": "account",
            "AZURE_STORAGE_ACCOUNT_KEY": "c2VjcmV0",
        }

    def heal(self) -> None:
        """End every fault."""
        self.fault = lambda method, key: None
        self.listed = None

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextlib.contextmanager
def served_bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """Serve a bucket, and let obstore find it."""
    server = S3Server()
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    try:
        yield server
    finally:
        server.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the body waits 40 ms for the client's ACK of the headers

    def log_message(self, *given: Any) -> None:
        pass

    def setup(self) -> None:
        super().setup()
        self.server.bucket.connections += 1  # type: ignore[attr-defined]

    def handle_any(self) -> None:
        bucket: S3Server = self.server.bucket  # type: ignore[attr-defined]
        path = urllib.parse.urlsplit(self.path)
        key = urllib.parse.unquote(path.path).removeprefix("/bucket").removeprefix("/")
        query = dict(urllib.parse.parse_qsl(path.query, keep_blank_values=True))
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        with bucket.lock:
            bucket.requests.append((self.command, key))
            bucket.received.append(len(body))
            fault = bucket.fault(self.command, key)
            if fault is not None and fault.isdecimal():
                status, answer, headers = int(fault), f"<Error>{fault}</Error>".encode(), {}
            elif fault in ("drop", "hang"):
                self.close_connection = True
            else:
                status, answer, headers = self._answer(bucket, key, query, body)
                bucket.sent += len(answer)
        if fault == "hang":
            bucket.closing.wait(_HANG_S)
        if fault in ("drop", "lost", "hang"):
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(ConnectionError):
                self._send(bucket, answer, fault)

    def _send(self, bucket: S3Server, answer: bytes, fault: Fault) -> None:
        if fault == "slow":
            step = max(1, len(answer) // _PIECES)
            for start in range(0, len(answer), step):
                bucket.closing.wait(SLOW_S)
                self.wfile.write(answer[start : start + step])
            return
        half = fault in ("torn", "stall")
        self.wfile.write(answer[: len(answer) // 2] if half else answer)
        if fault == "stall":
            bucket.closing.wait(_HANG_S)
        self.close_connection = self.close_connection or half

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_any  # noqa: N815

    def _answer(
        self, bucket: S3Server, key: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        if "uploads" in query or "uploadId" in query:
            return self._take_part(bucket, key, query, body)
        if query.get("comp") in ("block", "blocklist"):
            return self._take_block(bucket, key, query, body)
        if self.command == "PUT":
            return self._put(bucket, key, body)
        if self.command in ("DELETE", "POST"):
            return _deletion(bucket, key, query, body.decode())
        if "list-type" in query or query.get("comp") == "list":
            listing = _listing if "list-type" in query else _azure_listing
            return 200, listing(bucket, query), {"content-type": "application/xml"}
        return self._content(bucket.objects.get(key))

    def _put(self, bucket: S3Server, key: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        if self._is_refused(bucket, key):
            return 412, b"<Error><Code>PreconditionFailed</Code></Error>", {}
        copied = self._copied(bucket)
        bucket.objects[key] = body = body if copied is None else copied
        return 201, b"", {"etag": _tag(body), "last-modified": _MODIFIED}

    def _take_block(
        self, bucket: S3Server, key: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        """Do the same for Azure, whose parts have names."""
        blocks = bucket.blocks.setdefault(key, {})
        if query["comp"] == "block":
            blocks[query["blockid"]] = body
            return 201, b"", {}
        names = re.findall(r"<(?:Latest|Uncommitted)>(.*?)</", body.decode())
        bucket.objects[key] = b"".join(blocks[name] for name in names)
        del bucket.blocks[key]
        return 201, b"", {"etag": _tag(bucket.objects[key]), "last-modified": _MODIFIED}

    def _is_refused(self, bucket: S3Server, key: str) -> bool:
        new = self.headers.get("if-none-match") == "*"
        new = new or self.headers.get("x-goog-if-generation-match") == "0"
        return new and key in bucket.objects and bucket.knows_conditions

    def _copied(self, bucket: S3Server) -> bytes | None:
        """Return the object that a request copies; None if it copies none."""
        names = ("x-amz-copy-source", "x-goog-copy-source", "x-ms-copy-source")
        source = next((each for name in names if (each := self.headers.get(name))), None)
        if source is None:
            return None
        return bucket.objects[
            urllib.parse.unquote(source).partition("bucket/")[2].partition("?")[0]
        ]

    def _take_part(
        self, bucket: S3Server, key: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        """Begin, go on with, or complete an upload in parts; there is one at a time of a key."""
        if "uploads" in query:
            bucket.parts[key] = {}
            begun = "InitiateMultipartUploadResult"
            return 200, f"<{begun}><UploadId>1</UploadId></{begun}>".encode(), {}
        parts = bucket.parts[key]
        if self.command == "DELETE":
            del bucket.parts[key]
            return 204, b"", {}
        if self.command == "PUT":
            copied = self._copied(bucket)
            parts[int(query["partNumber"])] = body = body if copied is None else copied
            answer = f"<CopyPartResult><ETag>{escape(_tag(body))}</ETag></CopyPartResult>"
            return 200, b"" if copied is None else answer.encode(), {"etag": _tag(body)}
        if self._is_refused(bucket, key):
            return 412, b"<Error><Code>PreconditionFailed</Code></Error>", {}
        bucket.objects[key] = b"".join(parts[number] for number in sorted(parts))
        del bucket.parts[key]
        done = "CompleteMultipartUploadResult"
        return 200, f"<{done}><ETag>1</ETag></{done}>".encode(), {}

    def _content(self, content: bytes | None) -> tuple[int, bytes, dict[str, str]]:
        if content is None:
            return 404, b"<Error><Code>NoSuchKey</Code></Error>", {}
        headers = {"etag": _tag(content), "last-modified": _MODIFIED}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range") or "")
        if asked is None:
            return 200, content, headers
        start, stop = int(asked[1]), int(asked[2] or len(content) - 1) + 1
        headers["content-range"] = f"bytes {start}-{min(stop, len(content)) - 1}/{len(content)}"
        return 206, content[start:stop], headers


def _deletion(
    bucket: S3Server, key: str, query: dict[str, str], body: str
) -> tuple[int, bytes, dict[str, str]]:
    if query.get("comp") == "batch":
        return _azure_deletion(bucket, body)
    if "delete" not in query:
        return (404 if bucket.objects.pop(key, None) is None else 204), b"", {}
    keys = re.findall(r"<Key>(.*?)</Key>", body)
    for each in keys:
        bucket.objects.pop(each, None)
    deleted = "".join(f"<Deleted><Key>{escape(each)}</Key></Deleted>" for each in keys)
    return 200, f"<DeleteResult>{deleted}</DeleteResult>".encode(), {}


def _azure_deletion(bucket: S3Server, body: str) -> tuple[int, bytes, dict[str, str]]:
    """Delete what a batch of requests names, and answer each of them."""
    answers = []
    for number, key in enumerate(re.findall(r"DELETE /bucket/(.*) HTTP/1.1", body)):
        missing = bucket.objects.pop(urllib.parse.unquote(key), None) is None
        status = "404 No\r\nx-ms-error-code: BlobNotFound" if missing else "202 Yes"
        answers.append(
            f"--x\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n"
            f"HTTP/1.1 {status}\r\n\r\n"
        )
    whole = "".join([*answers, "--x--\r\n"]).encode()
    return 202, whole, {"content-type": "multipart/mixed; boundary=x"}


def _azure_listing(bucket: S3Server, query: dict[str, str]) -> bytes:
    found = "".join(
        f"<Blob><Name>{escape(key)}</Name><Properties><Last-Modified>{_MODIFIED}</Last-Modified>"
        f"<Content-Length>{len(content)}</Content-Length><Content-Type>x</Content-Type>"
        f"<Etag>{_tag(content)}</Etag></Properties></Blob>"
        for key, content in sorted(bucket.objects.items())
        if key.startswith(query.get("prefix", ""))
    )
    blobs = f"<Blobs>{found}</Blobs><NextMarker/>"
    return f"<EnumerationResults>{blobs}</EnumerationResults>".encode()


def _listing(bucket: S3Server, query: dict[str, str]) -> bytes:
    objects = bucket.objects if bucket.listed is None else bucket.listed
    prefix = query.get("prefix", "")
    found = "".join(
        f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        f"<ETag>{_tag(content)}</ETag><Size>{len(content)}</Size></Contents>"
        for key, content in sorted(objects.items())
        if key.startswith(prefix)
    )
    return (
        f"<ListBucketResult><Name>bucket</Name><Prefix>{escape(prefix)}</Prefix>"
        f"<IsTruncated>false</IsTruncated>{found}</ListBucketResult>"
    ).encode()


def _tag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'
