"""Decides which old segments are archived or deleted, and stores a log elsewhere."""
