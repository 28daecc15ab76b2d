"""`commitlog bench DIR`: measure commitlog on a disk, with the pool and without it.

`workloads` lists the measurements, `harness` runs them in turns, `table` and `page` show the
results. The benchmarks that judge a release of commitlog are in `bench/` beside the package.
"""
