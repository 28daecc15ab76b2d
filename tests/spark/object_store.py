"""An HTTP server on loopback that serves a directory as S3 does: it lists and reads files."""

from __future__ import annotations

import contextlib
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": "nothing",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    root: Path

    def log_message(self, format: str, *arguments: object) -> None:
        """Write no log lines."""

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = urllib.parse.urlsplit(self.path)
        _, bucket, *key = urllib.parse.unquote(parts.path).split("/", 2)
        query = dict(urllib.parse.parse_qsl(parts.query))
        file = self.root.joinpath(bucket, *key)
        if "list-type" in query:
            self._answer(
                200, self._listing(self.root / bucket, query), Content_Type="application/xml"
            )
        elif not key or not file.is_file():
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            content = file.read_bytes()
            wanted = self.headers.get("Range")
            if wanted is None:
                self._answer(200, content)
                return
            first, last = wanted.removeprefix("bytes=").split("-")
            piece = content[int(first) : int(last) + 1]
            self._answer(
                206,
                piece,
                Content_Range=f"bytes {first}-{int(first) + len(piece) - 1}/{len(content)}",
            )

    def _listing(self, bucket: Path, query: dict[str, str]) -> bytes:
        prefix = query.get("prefix", "")
        keys = sorted(str(path.relative_to(bucket)) for path in bucket.rglob("*") if path.is_file())
        found = [key for key in keys if key.startswith(prefix)]
        flat = [key for key in found if "/" not in key[len(prefix) :]]
        folders = {prefix + key[len(prefix) :].partition("/")[0] + "/" for key in found} - {
            key + "/" for key in flat
        }
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key>"
            f"<Size>{(bucket / key).stat().st_size}</Size></Contents>"
            for key in flat
        )
        commons = "".join(
            f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>"
            for one in sorted(folders)
        )
        listing = f"<IsTruncated>false</IsTruncated>{contents}{commons}"
        return f"<ListBucketResult>{listing}</ListBucketResult>".encode()


@contextlib.contextmanager
def object_store(root: Path) -> Iterator[str]:
    """Serve a directory whose folders are buckets; yield the URI query that addresses the
    server.
    """
    handler = type("Handler", (_Handler,), {"root": root})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in CREDENTIALS.items():
                patch.setenv(name, value)
            address = f"127.0.0.1:{server.server_address[1]}"
            yield f"?scheme=http&endpoint_override={address}&region=eu-north-1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
