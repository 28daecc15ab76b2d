"""`commitlog mirror`: send the records of a log to a topic of Kafka, or append those of a topic."""

from __future__ import annotations

import click

import commitlog
from commitlog.mirror import from_kafka, to_kafka
from commitlog.tools.cli import parameters
from commitlog.tools.cli.interrupt import Ending
from commitlog.tools.cli.lag import report_lag
from commitlog.tools.cli.output import echo

_TO = ("name", "transactional_id", "partition", "start", "visibility")


@click.command()
@click.argument("log", type=click.Path())
@click.argument("url")
@click.option("--from", "receives", is_flag=True, help="Append the records of URL to LOG.")
@click.option("--name", metavar="NAME", help="The mirror's own.  [default: kafka:TOPIC]")
@click.option("--transactional-id", metavar="ID", help="Send each record exactly once.")
@click.option(
    "--partition", type=parameters.whole(0), metavar="N", help="Send all records to one partition."
)
@click.option(
    "--start", type=parameters.start, metavar="POSITION", help="Where a new mirror begins: first, "
    "end, or the position of a record.  [default: first]",
)  # fmt: skip
@click.option(
    "--visibility",
    type=click.Choice(["flushed", "replicated", "committed"]),
    help="Send what is durable, what enough copies have, or all that readers see.  [default: "
    "flushed]",
)
@click.option("--group", metavar="GROUP", help="With --from: the consumer group.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of confluent-kafka."
)
@parameters.report_interval_option
def command(
    *,
    log: str,
    url: str,
    receives: bool,
    group: str | None,
    settings: tuple[str, ...],
    interval: float,
    **given: str | int | None,
) -> None:
    """Send the records of LOG to a topic of Kafka.

    With --from, append those of the topic to LOG. It runs until Ctrl-C, and URL is
    kafka://HOST:PORT/TOPIC. The next run continues where the broker is. SIGTERM ends it with
    status 0. COMMITLOG_KAFKA_SASL_PASSWORD in the environment sets sasl.password, and so on.

    \b
    Examples:
      commitlog mirror orders kafka://broker:9092/orders
      commitlog mirror --transactional-id orders-1 orders kafka://a:9092,b:9092/orders
      commitlog mirror --from copy kafka://broker:9092/orders
    """
    chosen = {key: value for key, value in given.items() if value is not None}
    wrong = [key for key in chosen if receives] + (["group"] if group and not receives else [])
    if wrong:
        name = f"--{wrong[0].replace('_', '-')}"
        raise click.UsageError(f"{name} is for a mirror {'to' if receives else 'from'} Kafka")
    pairs = dict(_pair(text) for text in settings)
    with Ending(serves=True), commitlog.open(log, "a" if receives else "r") as opened:
        mirror = (
            from_kafka(url, opened, group=group, settings=pairs)
            if receives
            else to_kafka(opened, url, settings=pairs, **chosen)  # type: ignore[arg-type]
        )
        with mirror:
            echo(f"mirroring from position {mirror.position}")
            report_lag(mirror, interval, lambda: mirror.lag, str)


def _pair(text: str) -> tuple[str, str]:
    key, found, value = text.partition("=")
    if not found:
        raise click.BadParameter(f"expected KEY=VALUE, not {text!r}", param_hint="--set")
    return key, value
