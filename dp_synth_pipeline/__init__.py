"""Differentially private synthetic tables: a Python call, or a Dagster pipeline, under a budget that cannot be overspent.

The house, top to bottom; imports point down and siblings never meet::

     cli/   orchestration/   synthesizer.py     a command line, an asset graph, a Python call: all thin
     ----------------------------------------------------------------------------------------------
     reporting/                                 pages for people; computes no figure
     synthesis/                                 one release, from its source to its synthetic rows
     validation/                                figures, expectations, attacks
     relations/  |  texts/                      related tables  |  text columns
     tabular/  |  model/ (torch)  |  ledger/    tables  |  generators  |  what has been spent
     privacy/                                   what a release costs
     errors.py

The way through it, for one release of one table::

    source -> ingested -> profile -> completed -> marginals -> generator -> synthetic -> [checks] -> published
              snapshot    charged    nulls        charged      charged      free         blocking    warehouse

Only `orchestration/` imports Dagster, only `model/` torch. Nothing heavy is imported here.
"""

__version__ = "0.1.0"

_LAZY = {
    "Ledger": "dp_synth_pipeline.ledger",
    "Synthesizer": "dp_synth_pipeline.synthesizer",
    "SyntheticModel": "dp_synth_pipeline.synthesizer",
    "SyntheticTables": "dp_synth_pipeline.synthetic_tables",
    "load": "dp_synth_pipeline.synthesizer",
    "SyntheticTable": "dp_synth_pipeline.orchestration.component",
    "SyntheticDatabase": "dp_synth_pipeline.orchestration.component",
    "build_synthetic_database": "dp_synth_pipeline.orchestration.build",
    "build_synthetic_table": "dp_synth_pipeline.orchestration.build",
    "TableSettings": "dp_synth_pipeline.orchestration.settings",
    "RelatedTablesSettings": "dp_synth_pipeline.orchestration.settings",
    "LedgerResource": "dp_synth_pipeline.orchestration.resources",
    "StoreResource": "dp_synth_pipeline.orchestration.resources",
    "AlertResource": "dp_synth_pipeline.orchestration.alerts",
    "dp_synth_executor": "dp_synth_pipeline.orchestration.executors.routing",
}
"""Public names, each imported when asked for; those from `orchestration` need Dagster."""


def __getattr__(name: str) -> object:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
