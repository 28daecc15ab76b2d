"""Copies of a log on other machines: serve a log, follow it, promote the copy."""

from commitlog.extension import Epoch
from commitlog.network.replication.follower import Follower, follow
from commitlog.network.replication.promotion import promote
from commitlog.network.replication.replication import OnMissing, Replication
from commitlog.network.replication.server import Server, serve
from commitlog.network.replication.serving_process import ServingProcess

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
