"""A broker of Kafka 4 from its jars: one node, KRaft, in a folder of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import uuid
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

JARS = Path(os.environ.get("KAFKA_JARS", "build/kafka"))
START_S = 240.0
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl},SSL://127.0.0.1:{tls},\
CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl},\
SSL://127.0.0.1:{tls}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,\
SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL
ssl.keystore.location={folder}/keys.p12
ssl.keystore.password=secret
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.\
PlainLoginModule required user_mirror="secret";
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.cleaner.enable=false
"""
_LOGGING = """\
<Configuration status="WARN"><Appenders><Console name="c"><PatternLayout pattern="%d %p %m%n"/>
</Console></Appenders><Loggers><Root level="WARN"><AppenderRef ref="c"/></Root></Loggers>
</Configuration>
"""


def missing() -> str | None:
    """Return what is missing for a broker, in one line; None if all is there."""
    if shutil.which("java") is None:
        return "no java: install a JRE of version 17 or newer"
    if not any(JARS.glob("kafka-server-4*.jar")):
        return f"no jars of Kafka 4 in {JARS}: run `make kafka-tools`, or set KAFKA_JARS"
    return None


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class KafkaServer:
    """Start a broker; `kill` and `start` restart it with its data.

    It listens without TLS, with SASL, and with TLS by the self-signed certificate `certificate`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        controller, port, self.sasl_port, self.tls_port = _free_ports(4)
        self.address = f"127.0.0.1:{port}"
        folder.mkdir(parents=True)
        (folder / "log4j2.xml").write_text(_LOGGING)
        self.certificate = folder / "certificate.pem"
        self._make_certificate()
        ports = {"port": port, "controller": controller, "sasl": self.sasl_port}
        (folder / "server.properties").write_text(
            _PROPERTIES.format(folder=folder, tls=self.tls_port, **ports)
        )
        cluster = uuid.uuid4().hex[:22]
        self._run("kafka.tools.StorageTool", "format", "-t", cluster, "--standalone", "-c").wait()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def _make_certificate(self) -> None:
        store = ["-keystore", str(self.folder / "keys.p12"), "-storepass", "secret", "-alias", "b"]
        for arguments in (
            ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=broker", "-ext", "SAN=ip:127.0.0.1"],
            ["-exportcert", "-rfc", "-file", str(self.certificate)],
        ):
            subprocess.run(["keytool", *arguments, *store], check=True, capture_output=True)

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = ["nice", "-n", "10", "java", "-Xmx256m", "-XX:+UseSerialGC"]
        command += ["-XX:TieredStopAtLevel=1", "-cp", f"{JARS.resolve()}/*"]
        command += [f"-Dlog4j2.configurationFile={self.folder}/log4j2.xml", program, *arguments]
        with (self.folder / "output").open("ab") as output:
            return subprocess.Popen(
                [*command, str(self.folder / "server.properties")],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip

    def start(self) -> None:
        """Start the broker, and wait until it answers."""
        self._process = self._run("kafka.Kafka")
        until_s = time.monotonic() + START_S
        while True:
            try:
                self.admin.list_topics(timeout=2)
                return
            except KafkaException:
                if self._process.poll() is not None or time.monotonic() > until_s:
                    raise RuntimeError((self.folder / "output").read_text()[-2000:]) from None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @cached_property
    def admin(self) -> Any:
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def url(self, topic: str) -> str:
        return f"kafka://{self.address}/{topic}"

    def create(self, topic: str, partitions: int = 1, **config: str) -> str:
        """Create a topic, and return its address."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=settings)
        self.admin.create_topics([new])[topic].result(30)
        return self.url(topic)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(30)

    def create_again(self, topic: str) -> None:
        """Delete a topic and create it; return when the broker has the new one."""
        old = self._id_of(topic)
        self.delete(topic)
        self.create(topic)
        until_s = time.monotonic() + START_S
        while self._id_of(topic) in {old, None}:
            assert time.monotonic() < until_s, "the broker does not show the new topic"

    def _id_of(self, topic: str) -> str | None:
        described = self.admin.describe_topics(TopicCollection([topic]))[topic]
        try:
            return str(described.result(30).topic_id)
        except KafkaException:
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
