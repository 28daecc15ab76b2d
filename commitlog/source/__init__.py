"""Where the segments of a log come from: its directory, a store, a server, a single file."""
