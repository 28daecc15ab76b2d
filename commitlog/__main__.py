"""The program `commitlog`, as ``python -m commitlog``."""

from commitlog_program import main

if __name__ == "__main__":
    main()
