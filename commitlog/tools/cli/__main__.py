"""`python -m commitlog.tools.cli`: the same as `commitlog`."""

from commitlog.tools.cli import main

main()
