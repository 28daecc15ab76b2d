"""Stores and archives: keep the segments of a log elsewhere, and read them there."""
