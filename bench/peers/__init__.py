"""Other stores, measured beside commitlog in one run: `python -m bench.peers`."""
