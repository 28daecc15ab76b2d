"""A program that owns a log: it appends, serves copies, stores the log, and exports metrics.

The variables DATA and STORE are folders; COPIES and METRICS are where it listens.
"""

from __future__ import annotations

import os
import signal
import threading

from prometheus_client import CollectorRegistry, start_http_server

import commitlog
from commitlog.metrics import LogCollector
from commitlog.replication import Replication


def main() -> None:
    """Append a record a second until SIGTERM or Ctrl-C."""
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    host, _, port = os.environ["METRICS"].rpartition(":")
    copies = Replication(
        listen=os.environ["COPIES"], token=os.environ["COMMITLOG_TOKEN"],
        plain_text=True,  # within one machine; between machines: tls=(certificate, key)
        require=0,  # 1: each flushed append waits for the copy
    )  # fmt: skip
    store = commitlog.Store(os.environ["STORE"])
    with commitlog.open(os.environ["DATA"], replicate=copies, store=store) as log:
        registry = CollectorRegistry()
        registry.register(LogCollector(log))
        server, thread = start_http_server(int(port), addr=host, registry=registry)
        print(f"{log.path}: metrics at {host}:{server.server_port}", flush=True)
        while not ending.wait(1):
            log.append(b"an order", key=b"lena")
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    main()
