"""Helpers that know nothing of logs: paths, units, locks, threads."""
