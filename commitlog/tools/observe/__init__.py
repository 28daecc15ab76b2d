"""Live figures of a log: snapshots, and metrics for Prometheus."""
