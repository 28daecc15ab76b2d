"""Reads a log from any position, sequence, time or name."""
