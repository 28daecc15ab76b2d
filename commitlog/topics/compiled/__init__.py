"""The compiled part of topics and the bus: messages are written and read without Python calls."""
