"""The demo's visits against their truth: the day of arrival, the order of a stay, its length, and the verdict."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import yaml

import dp_synth_pipeline as dps
from dp_synth_pipeline import defs
from dp_synth_pipeline.demo.clinic_visits import clinic_visits
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.validation import fidelity

WANTED = ("unit", "columns", "columns_complete", "training", "validation")


def stays(rows: pd.DataFrame) -> pd.Series:
    return (pd.to_datetime(rows["discharged"]) - pd.to_datetime(rows["visited"])).dt.days.dropna()


@pytest.mark.slow
def test_the_demo_s_visits_are_on_the_day_of_arrival_and_stays_are_as_long_as_they_are(tmp_path):
    """Equality and order are certain. At this epsilon noise moves a cell of stays by tens of rows; the median would leave
    its bounds, and the verdict fall by two grades, if it moved some by hundreds."""
    asked = yaml.safe_load((Path(str(defs.__file__)).parent / "clinic_visits" / "defs.yaml").read_text())["attributes"]
    ledger = dps.Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    ledger.open_account("clinic", epsilon=asked["epsilon"] * 1.5, delta=1e-5, unit="patient_id", max_rows=3)
    settings = {name: asked[name] for name in WANTED}
    fitter = dps.Synthesizer(
        "clinic", asked["epsilon"], ledger, table="visits", store=Store(tmp_path / "store"), show=False, **settings
    )
    model, real = fitter.fit(clinic_visits()), clinic_visits().to_pandas()
    drawn = model.sample(20_000)
    assert (pd.to_datetime(drawn["visited"]) == drawn["arrived"].dt.normalize()).all()
    assert (stays(drawn) >= 0).all()
    assert stays(real).median() == 4
    assert stays(drawn).median() == pytest.approx(4, abs=1)
    assert stays(drawn).mean() == pytest.approx(stays(real).mean(), rel=0.25)
    learned = [name for name in real if name != "patient_id"]
    found = fidelity.compare(real[learned], drawn[learned], model.drawer().codec.schema)
    assert found.verdict in ("excellent", "good")
