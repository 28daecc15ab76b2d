"""Peers of `bench.queues`: each puts its jobs, and returns how many a second it takes and accepts.

A peer that is not installed raises `ModuleNotFoundError` or `FileNotFoundError`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_VALUE = b"x" * 100
_START_S = 60.0


def persist_queue(folder: Path, jobs: int) -> float:
    queue = importlib.import_module("persistqueue").SQLiteAckQueue(str(folder / "persist"))
    for _ in range(jobs):
        queue.put(_VALUE)
    began = time.perf_counter()
    for _ in range(jobs):
        queue.ack(queue.get())
    return jobs / (time.perf_counter() - began)


def huey(folder: Path, jobs: int) -> float:
    storage = importlib.import_module("huey.storage").SqliteStorage(filename=str(folder / "huey"))
    for _ in range(jobs):
        storage.enqueue(_VALUE)
    began = time.perf_counter()
    for _ in range(jobs):
        storage.dequeue()
    return jobs / (time.perf_counter() - began)


def litequeue(folder: Path, jobs: int) -> float:
    queue = importlib.import_module("litequeue").LiteQueue(str(folder / "lite"))
    for _ in range(jobs):
        queue.put("x" * 100)
    began = time.perf_counter()
    for _ in range(jobs):
        queue.done(queue.pop().message_id)
    return jobs / (time.perf_counter() - began)


# --- servers --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _running(
    program: str, *arguments: str, folder: Path, port: int, **environment: str
) -> Iterator[None]:
    """Run a server until the end of a `with`; wait until it listens."""
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/lib/rabbitmq/bin")
    if found is None:
        raise FileNotFoundError(f"there is no {program}")
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(
            [found, *arguments],
            cwd=folder,
            env=os.environ | environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        until_s = time.monotonic() + _START_S
        while time.monotonic() < until_s:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            if process.poll() is not None:
                raise FileNotFoundError((folder / "output").read_text()[-300:])
            time.sleep(0.05)
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def redis_streams(folder: Path, jobs: int, batch: int) -> float:
    """Read as a consumer group, and acknowledge each batch; the server appends to its file."""
    redis, port = importlib.import_module("redis"), _free_port()
    options = ("--port", str(port), "--appendonly", "yes", "--save", "")
    with _running("redis-server", *options, folder=folder, port=port):
        client = redis.Redis(port=port)
        client.xgroup_create("jobs", "bench", mkstream=True)
        filling = client.pipeline(transaction=False)
        for _ in range(jobs):
            filling.xadd("jobs", {"value": _VALUE})
        filling.execute()
        began, done = time.perf_counter(), 0
        while done < jobs:
            ((_, entries),) = client.xreadgroup("bench", "one", {"jobs": ">"}, count=batch)
            client.xack("jobs", "bench", *(each for each, _ in entries))
            done += len(entries)
        return jobs / (time.perf_counter() - began)


def rabbitmq(folder: Path, jobs: int) -> float:
    """Consume with a prefetch of 100, and acknowledge 100 at once; the queue is durable."""
    pika, port = importlib.import_module("pika"), _free_port()
    environment = {
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_DIST_PORT": str(_free_port()),
        "RABBITMQ_MNESIA_BASE": str(folder),
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "HOME": str(folder),
    }
    folder.chmod(0o777)  # the server runs as a user of its own
    with _running("rabbitmq-server", folder=folder, port=port, **environment):
        try:
            return _rabbitmq_rate(pika, _connected(pika, port), jobs)
        finally:  # its script does not end it
            os.kill(int((folder / "pid").read_text()), signal.SIGTERM)


def _connected(pika: Any, port: int) -> Any:
    until_s = time.monotonic() + _START_S
    while True:
        try:
            return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
        except pika.exceptions.AMQPError:  # it listens before it answers
            if time.monotonic() > until_s:
                raise
            time.sleep(0.2)


def _rabbitmq_rate(pika: Any, connection: Any, jobs: int) -> float:
    channel = connection.channel()
    channel.queue_declare("jobs", durable=True)
    persistent = pika.BasicProperties(delivery_mode=2)
    for _ in range(jobs):
        channel.basic_publish("", "jobs", _VALUE, persistent)
    while channel.queue_declare("jobs", passive=True).method.message_count < jobs:
        time.sleep(0.01)
    channel.basic_qos(prefetch_count=200)
    began = time.perf_counter()
    for count, (method, _, _) in enumerate(channel.consume("jobs"), 1):
        if count % 100 == 0 or count == jobs:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if count == jobs:
            break
    took_s = time.perf_counter() - began
    connection.close()
    return jobs / took_s
