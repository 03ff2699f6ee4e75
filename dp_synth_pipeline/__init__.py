"""Differentially private synthetic tables, as a Dagster pipeline with a budget that cannot be overspent.

The house, top to bottom; imports point down and siblings never meet::

     definitions.py                             loads, nothing else
     ---------------------------------------------------------------
     orchestration/    the asset graph, CLI     the only importer of dagster
     validation/       expectations, reports    great_expectations, plotly
     tabular/  |  model/ (torch)  |  ledger/    tables  |  generator  |  budget
     privacy/          what a release costs     numpy, dp_accounting, opendp
     errors.py

The way through it, for one refresh of one table::

    source -> ingested -> profile -> completed -> generator -> synthetic -> [checks] -> published
              snapshot    charged    nulls        charged      free         blocking    warehouse

Nothing heavy is imported here.
"""

__version__ = "0.1.0"

_LAZY = {
    "SyntheticTable": "dp_synth_pipeline.orchestration.component",
    "build_synthetic_table": "dp_synth_pipeline.orchestration.build",
    "TableSettings": "dp_synth_pipeline.orchestration.settings",
}
"""Public names that need dagster, imported when asked for."""


def __getattr__(name: str) -> object:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
