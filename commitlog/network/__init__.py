"""The network: the log of another machine as a source of segments, and copies of a log there."""
