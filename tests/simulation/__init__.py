"""A simulator of the whole system: the real code of replication, stores and promotion in one
process, from one seed. See `python -m tests.simulation --help`.
"""
