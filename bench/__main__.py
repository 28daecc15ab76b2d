"""``python -m bench``: the measurements that the decisions in `docs/decisions.md` rest on, one after the other."""

from __future__ import annotations

from bench import commit_copy

if __name__ == "__main__":
    commit_copy.main()
