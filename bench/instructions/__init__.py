"""Instructions per operation of the kernel's hot paths: the one measure of speed that no other
program on the machine disturbs.
"""
