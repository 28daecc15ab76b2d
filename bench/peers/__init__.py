"""Other systems, measured beside commitlog in one run: Mappedbus 0.5.1 so far. `python -m
bench.peers`.
"""
