"""Retention: limits of age and size, what keeps segments, and the deletion of old ones."""
