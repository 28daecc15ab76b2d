"""`python -m commitlog.cli`: the same as `commitlog`."""

from commitlog.cli import main

main()
