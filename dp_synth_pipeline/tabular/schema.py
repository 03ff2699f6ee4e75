"""Public facts about columns: kind, storage type, domain, bounds and null handling, declared by a person or left open.

Whatever is declared is public, costs nothing and is named as public on the release card. Whatever is left open is
discovered by the profile, at a charge. Column names and storage types are always public.

The one door to `kinds`, `facts` and `declare`.
"""

from __future__ import annotations

from dp_synth_pipeline.tabular.declare import build
from dp_synth_pipeline.tabular.facts import TableSchema
from dp_synth_pipeline.tabular.kinds import Column, Kind, kind_of
from dp_synth_pipeline.tabular.policies import NullPolicy, OtherPolicy
from dp_synth_pipeline.tabular.storage import parse_storage

__all__ = [
    "Column",
    "Kind",
    "NullPolicy",
    "OtherPolicy",
    "TableSchema",
    "build",
    "kind_of",
    "parse_storage",
]
