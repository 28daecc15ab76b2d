"""Typed messages of a fixed layout, and the bus that carries them: a thin layer over log and
tailer.
"""
