"""Public facts about columns: kind, storage type, domain, bounds and null handling, declared by a person or left open.

Whatever is declared is public, costs nothing and is named as public on the release card. Whatever is left open is
discovered by the profile, at a charge. Column names and storage types are always public.

The one door to three small rooms: `kinds`, `facts` and `declare`.
"""

from __future__ import annotations

from dp_synth_pipeline.tabular.declare import build
from dp_synth_pipeline.tabular.facts import Column, TableSchema
from dp_synth_pipeline.tabular.kinds import Kind, NullPolicy, OtherPolicy, format_storage, kind_of, parse_storage

__all__ = [
    "Column",
    "Kind",
    "NullPolicy",
    "OtherPolicy",
    "TableSchema",
    "build",
    "format_storage",
    "kind_of",
    "parse_storage",
]
