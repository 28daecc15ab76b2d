"""`commitlog bench DIR`: measure the log on a disk of the user's, with the pool and without it.

`workloads` lists what is measured, `harness` runs it in turns, `table` and `page` show the results.
What judges this project and not the user's disk is in the folder `bench/` beside the package.
"""
