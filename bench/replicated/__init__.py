"""Appends that wait for a copy, a stream to a copy, and what a copy costs its primary."""
