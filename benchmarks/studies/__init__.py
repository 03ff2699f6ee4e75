"""Studies of training: each asks one question, trains the network alone on public tables, and shows what it found.

`make studies` runs what is missing of all of them, then draws the charts and writes the figures into `docs/studies.md`.
One study: `python -m benchmarks.studies NAME`. Nothing here is protected or charged: the tables are public.
"""
