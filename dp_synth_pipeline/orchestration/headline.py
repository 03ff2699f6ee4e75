"""`validation: report_epsilon`: figures of the generator's accuracy that are charged, so that they may be published.

Their pure epsilon is a part of the release's, set aside before the profile is planned, like the row count's, and started
in the ledger before training, so that training leaves it its room. They are measured between training and settlement, by
the attempt that started them and by no other.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from dp_synth_pipeline.ledger import Ledger, Release
from dp_synth_pipeline.orchestration.assets.encoded import encoded
from dp_synth_pipeline.orchestration.assets.handles import Refresh
from dp_synth_pipeline.privacy.budget import ADD_REMOVE
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.validation import charged

if TYPE_CHECKING:
    from dp_synth_pipeline.model.generation import Generator
    from dp_synth_pipeline.orchestration.config import TableSettings

MECHANISM = "headline figures"
"""The entry's name in the ledger."""

DRAWS = 200_000
"""Rows drawn to be compared, at most; free, like all rows drawn from a released generator."""


def plan(settings: TableSettings, release: Release, columns: int) -> charged.ChargedPlan | None:
    """Return what the figures will measure, from public facts; None unless they are asked for."""
    asked = settings.validation.report_epsilon
    if asked is None or release.plan is not None or columns < 1:
        return None
    moves = 1 if release.relation == ADD_REMOVE else 2  # replacing a unit doubles a pure epsilon
    return charged.ChargedPlan(columns, settings.privacy_unit.max_rows, asked / moves)


def ahead(settings: TableSettings, release: Release, columns: int) -> tuple[Event, ...]:
    """Return what is still to be spent on the figures, so that whatever runs before them leaves it."""
    wanted = plan(settings, release, columns)
    return () if wanted is None else wanted.events


def begin(settings: TableSettings, ledger: Ledger, release_id: str, columns: int) -> charged.ChargedPlan | None:
    """Put the figures in the ledger before training; None if they are not asked for, or an earlier attempt did so.

    That attempt may have looked at the rows, and one charge buys one look: the figures are lost then, not their cost.
    """
    wanted = plan(settings, ledger.release(release_id), columns)
    if wanted is None or any(e.mechanism == MECHANISM for e in ledger.entries(release_id=release_id)):
        return None
    ledger.start(release_id, MECHANISM, wanted.events)
    return wanted


def measure(
    wanted: charged.ChargedPlan | None, refresh: Refresh, codec: TableCodec, learnt: Generator, rows: int
) -> dict[str, float]:
    """Return the released figures by name; empty if none were begun.

    Args:
        wanted: what `begin` returned to this very attempt.
        rows: released number of rows.
    """
    if wanted is None:
        return {}
    import numpy as np

    from dp_synth_pipeline.model import generation

    drawn = np.concatenate(list(generation.draw(learnt, min(max(rows, 1), DRAWS), forbidden=codec.forbidden)))
    codes, _ = encoded(refresh.path("completed"), codec)
    found = charged.measure(codes, drawn, codec.cardinalities, wanted, rows=max(rows, 1))
    return {f"accuracy_{name}": round(value, 6) for name, value in asdict(found).items() if value is not None}
