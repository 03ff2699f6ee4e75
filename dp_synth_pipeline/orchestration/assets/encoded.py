"""The completed snapshot as integer codes: written once per release beside it, and as restricted."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dp_synth_pipeline.orchestration.restricted import private
from dp_synth_pipeline.tabular.encoding.codec import TableCodec


def encoded(completed: Path, codec: TableCodec) -> tuple[np.ndarray, np.ndarray | None]:
    """Return memory-mapped codes (rows, columns) and, unless each row is a unit, unit numbers (rows,)."""
    codes_file, units_file = completed.with_name("codes.npy"), completed.with_name("units.npy")
    done = completed.with_name("encoded")
    if not done.exists():
        with private():
            _, units = codec.encode_file(completed, codes_file)
            if units is not None:
                np.save(units_file, units)
            done.touch()
    units = np.load(units_file, mmap_mode="r") if units_file.exists() else None
    return np.load(codes_file, mmap_mode="r"), units
