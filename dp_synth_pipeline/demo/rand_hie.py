"""The RAND Health Insurance Experiment, 20,190 person-years, as the statsmodels package ships it."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput


def rand_hie() -> pa.Table:
    """Return the table, counts and flags as integers, without reaching the network."""
    try:
        from statsmodels.datasets import randhie
    except ImportError:
        raise InvalidInput(
            "the demo's real table is in the statsmodels package; install it: pip install dp-synth-pipeline[demo]."
        ) from None
    frame: pd.DataFrame = randhie.load_pandas().data  # type: ignore[assignment]
    whole = [c for c in frame.columns if bool((frame[c] == frame[c].round()).all())]
    return pa.Table.from_pandas(frame.astype(dict.fromkeys(whole, "int64")), preserve_index=False)
