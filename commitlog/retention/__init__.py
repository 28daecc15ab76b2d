"""Decides which old segments leave a log, for an archive or for good."""
