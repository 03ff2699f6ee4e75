"""Makes one release of one table, from its source to its synthetic rows, without Dagster.

    settings ─► protection.reserve ─► release.run(stage), stage by stage ─► synthetic rows
                                           │
                    a mechanism: plan ─► charge ─► run, in this order, always

Stages read and change a `release`, `stages` lists them in their order, and the stages that touch rows for a charge do so
through `mechanisms/`. `protection` says who pays: an account of the ledger, or nobody for a source that was declared public.
`allocation` divides what was reserved over the mechanisms. The asset graph, the command line, `Synthesizer`, benchmarks
and adversarial tests all make the same calls.
"""
