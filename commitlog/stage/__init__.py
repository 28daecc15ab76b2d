"""Segments that are made complete outside of a log, and joined to it later, all at once as readers
see it.
"""
