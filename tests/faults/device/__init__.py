"""Power cuts of a real block device: real file systems on a device that records every write and
flush, and images of what the device may have kept at a cut.

`python -m tests.faults.device --cuts 100` runs it; it needs root, FUSE, loop devices and mkfs.
"""
