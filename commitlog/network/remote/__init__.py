"""Reads logs of other machines over a network, through a local cache of their segments."""
