"""Makes appended records durable in the background."""
