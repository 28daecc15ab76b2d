"""Roll cycles: the time windows at whose end a log rolls early."""
