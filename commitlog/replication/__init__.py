"""Copies of a log on other machines: serve a log, follow it, promote the copy."""

from commitlog.extension import Epoch
from commitlog.replication.follower import Follower, follow
from commitlog.replication.promotion import promote
from commitlog.replication.replication import OnMissing, Replication
from commitlog.replication.server import Server, serve
from commitlog.replication.serving_process import ServingProcess

__all__ = [
    "Epoch",
    "Follower",
    "OnMissing",
    "Replication",
    "Server",
    "ServingProcess",
    "follow",
    "promote",
    "serve",
]
