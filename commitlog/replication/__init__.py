"""Copies of a log on other machines: serve a log, follow it, promote the copy."""

from commitlog.recovery.lineage import Epoch
from commitlog.replication.follower import Follower, follow
from commitlog.replication.promotion import promote
from commitlog.replication.server import Server, serve

__all__ = ["Epoch", "Follower", "Server", "follow", "promote", "serve"]
