"""Live figures of a log, for its operator."""
