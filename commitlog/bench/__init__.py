"""What commitlog does on this disk: `commitlog bench DIR`.

`workloads` is the one table of what is measured; `harness` runs it in turns; `report_table` and `report_page` show what came out, and
`goals` what had been asked for. It uses commitlog as any program could.
"""
