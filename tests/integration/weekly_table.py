"""A code location with one table that is refreshed every Monday at three, for `test_weeks`."""

import os

import dagster as dg

from dp_synth_pipeline.orchestration.build import build_synthetic_table
from dp_synth_pipeline.orchestration.resources import LedgerResource, StoreResource
from dp_synth_pipeline.orchestration.settings import TableSettings

HOME = os.environ["DP_SYNTH_TEST_WEEKLY"]

defs = dg.Definitions.merge(
    build_synthetic_table(
        TableSettings(
            table="people",
            source=f"{HOME}/people.parquet",
            account="people",
            epsilon=1.0,
            schedule="0 3 * * 1",
            columns={"person": {"kind": "excluded"}},
            target=f"{HOME}/synthetic.parquet",
            training={"method": "marginals"},  # type: ignore[arg-type]
        )
    ),
    dg.Definitions(
        resources={
            "ledger": LedgerResource(url=f"sqlite:///{HOME}/ledger.db"),
            "store": StoreResource(root=f"{HOME}/store"),
        },
        executor=dg.in_process_executor,
    ),
)
