"""Independent readers and writers of commitlog's files, which do not import the package."""
