"""Independent readers and writers of commitlog's files, for tests to compare the package with.
Nothing here imports the package.
"""
