"""A mirror to Kafka and from it: `to_kafka` sends a log's records to a topic, `from_kafka` appends
those of a topic to a log.
"""

from commitlog.mirror.mirror import Mirror, from_kafka, to_kafka
from commitlog.mirror.repeats import Repeats

__all__ = ["Mirror", "Repeats", "from_kafka", "to_kafka"]
