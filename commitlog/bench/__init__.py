"""What commitlog does on this disk: `commitlog bench DIR`.

`workloads` is the one table of what is measured; `harness` runs it in turns; `report_table` and
`report_page` show the results. It uses commitlog as any program could. The project's own goals and
the workloads that only they need are in `bench/`, beside the package.
"""
