"""Whether a machine and a file system give what a log needs: `examine`, in `checks`, runs every
check and yields what it found.
"""
