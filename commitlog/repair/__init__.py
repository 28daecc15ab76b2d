"""Finds damage in a log's files, for `verify` to report or `repair` to repair."""
