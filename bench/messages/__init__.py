"""The cost of typed messages above their encoding and a raw append or read."""
