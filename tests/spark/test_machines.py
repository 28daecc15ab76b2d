"""Workers on machines of their own read a live log from its server, and its store in a bucket."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.certificates import certificate
from tests.conftest import ROOT
from tests.spark.cluster import Cluster, LogPosition
from tests.spark.logs_in_spark import numbered
from tests.spark.machines import machines

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
RECORDS = 20_000
LIMIT_S = 400

# On the machine of the log: a bucket, the log with its store, and a server of the log.
SERVE = """
import os, sys
import commitlog
from commitlog import replication
from tests.stores.s3_server import S3Server
from tests.spark.logs_in_spark import numbered

path, host, certificate, key, count = sys.argv[1:]
bucket = S3Server(host)
os.environ["AWS_ENDPOINT_URL"] = bucket.url
store = commitlog.Store("s3://bucket/orders", every=0.1)
with commitlog.open(path, segment_size=1 << 16, store=store) as log:
    for value in numbered(int(count)):
        log.append(value)
with (
    commitlog.open(path, store=store),
    replication.serve(path, listen=f"{host}:0", tls=(certificate, key), token="secret") as server,
):
    print(server.url(), bucket.url, flush=True)
    sys.stdin.read()
bucket.close()
"""

DRIVER = """
import sys
from commitlog.spark import session

master, host, hidden, checkpoints, *places = sys.argv[1:]
config = {"spark.log.level": "ERROR", "spark.driver.host": host}
spark = session("machines", master=master, config=config)

def seen(rows):
    import os
    list(rows)
    yield os.readlink("/proc/self/ns/net"), os.listdir(hidden)

workers = spark.sparkContext.parallelize(range(8), 8).mapPartitions(seen).collect()
print(len({network for network, _ in workers}), [names for _, names in workers if names])

def digest(rows):
    import hashlib
    values = [bytes(row.value) for row in sorted(rows, key=lambda row: row.sequence)]
    return len(values), hashlib.sha256(b"".join(values)).hexdigest()

for number, place in enumerate(places):
    frame = spark.read.format("commitlog").option("minPartitions", "8").load(place)
    print(*digest(frame.select("sequence", "value").collect()))
    stream = spark.readStream.format("commitlog").option("startingOffsets", "earliest")
    stream = stream.option("maxOffsetsPerTrigger", 7000).load(place)
    rows = []
    def keep(batch, number):
        rows.extend(batch.select("sequence", "value").collect())
    writer = stream.writeStream.foreachBatch(keep)
    writer = writer.option("checkpointLocation", f"{checkpoints}/{number}")
    writer.trigger(availableNow=True).start().awaitTermination()
    print(*digest(rows))
spark.stop()
"""


def test_workers_of_other_machines_read_server_and_bucket(tmp_path: Path) -> None:
    hidden = tmp_path / "machine of the log"
    hidden.mkdir()
    with machines(3) as (first, *others):
        for other in others:
            other.hide(hidden)
        roots, key = certificate(tmp_path, first.host)
        cluster = Cluster(
            tmp_path / "cluster",
            [LogPosition(each.host, tuple(each.launcher)) for each in (first, *others)],
        )
        cluster.environment |= {
            "COMMITLOG_TOKEN": "secret",
            "COMMITLOG_TLS_ROOTS": roots,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "eu-central-1",
        }
        python = [*first.launcher, sys.executable, "-c"]
        serve = [*python, SERVE, hidden / "orders", first.host, roots, key, str(RECORDS)]
        with subprocess.Popen(
            serve,
            env=cluster.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as server:
            assert server.stdout is not None
            url, bucket = server.stdout.readline().split()
            cluster.environment["AWS_ENDPOINT_URL"] = bucket
            with cluster:
                done = subprocess.run(
                    [*python, DRIVER, cluster.url, first.host, hidden, tmp_path / "checkpoints",
                     url, "s3://bucket/orders"],
                    cwd=ROOT, env=cluster.environment, capture_output=True, text=True,
                    timeout=LIMIT_S, check=False,
                )  # fmt: skip
            server.communicate(timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr[-4000:]
    workers, *found = done.stdout.splitlines()
    assert workers == "2 []"  # networks of the workers, and files of the log that they see
    digest = hashlib.sha256(b"".join(numbered(RECORDS))).hexdigest()
    assert found == [f"{RECORDS} {digest}"] * 4
