"""Writes complete segments outside of a log, and joins them to it: readers see all or none."""
