"""`SyntheticTable`: one YAML file, one table, the whole graph."""

from __future__ import annotations

import dagster as dg

from dp_synth_pipeline.orchestration.build import build_synthetic_table
from dp_synth_pipeline.orchestration.config import TableSettings

TEMPLATE = """type: dp_synth_pipeline.SyntheticTable
attributes:
  source: data/{name}.csv          # CSV, Parquet, or duckdb:///file.duckdb?table=schema.table
  account: {name}                  # open it once: dp-synth ledger open {name} --epsilon 6 --delta 1e-5
  epsilon: 2.0                     # the most that one refresh may cost
  # unit: {{column: person_id, max_rows: 4}}   # when one person has several rows
  # nulls: keep                    # keep | mean | drop; per column under `columns`
  # columns:
  #   notes: {{kind: excluded}}
  # training: {{purpose: analytics}}           # testing | analytics | machine_learning
  # target: duckdb:///warehouse.duckdb?table=synthetic.{name}
"""


class SyntheticTableScaffolder(dg.Scaffolder):
    """Writes a commented `defs.yaml` that works once its source exists and its account is open."""

    def scaffold(self, request: dg.ScaffoldRequest) -> None:
        """Create the component's folder and file."""
        request.target_path.mkdir(parents=True, exist_ok=True)
        (request.target_path / "defs.yaml").write_text(TEMPLATE.format(name=request.target_path.name))


@dg.scaffold_with(SyntheticTableScaffolder)
class SyntheticTable(dg.Component, TableSettings):
    """A differentially private synthetic copy of one table, refreshed under a privacy account that refuses to be overspent.

    Materializing the table's assets reads its source, spends at most `epsilon` of `account`, checks what it drew and
    replaces the published table. The account is opened by a person, never by the pipeline.
    """

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the table's assets, checks and refresh job."""
        name = self.table or context.path.name
        return build_synthetic_table(TableSettings(**{**self.model_dump(), "table": name}))
