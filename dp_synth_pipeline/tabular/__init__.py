"""Tables to integers and back: a table's public facts, its source, the private profile, the codec and the target.

    kinds/        what a column's values mean: one file a kind
    sources/      where rows come from: files, CSV, DuckDB, warehouses
    profiling/    the private pass: histograms, their plan, the released profile
    encoding/     tables to codes and back; nulls
    constraints/  rules across columns of the synthetic rows
    targets/      where synthetic rows go

No torch and no dagster. What reads rows here is either charged (`profiling`), or returns restricted data.
"""

from dp_synth_pipeline.tabular import kinds as kinds
