"""The demo's clinic against its truth: visits a patient, their order and gaps, births, orphans, stays, and arrivals."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
import yaml

import dp_synth_pipeline as dps
from dp_synth_pipeline import defs
from dp_synth_pipeline.demo.clinic import clinic, clinic_visits
from dp_synth_pipeline.synthesis.store import Store

pytestmark = pytest.mark.slow


class Tables(NamedTuple):
    patients: pd.DataFrame
    visits: pd.DataFrame

    @property
    def together(self) -> pd.DataFrame:
        """The visits, each beside its patient."""
        return self.visits.merge(self.patients, on="patient_id", validate="many_to_one")

    @property
    def counts(self) -> pd.Series:
        """The share of patients with 0 to 12 visits."""
        each = self.visits.groupby("patient_id").size().reindex(self.patients["patient_id"], fill_value=0)
        return each.value_counts(normalize=True).reindex(range(13), fill_value=0)

    @property
    def gaps(self) -> pd.Series:
        """Days from a visit to the patient's next one, in the order of the table."""
        return self.visits.groupby("patient_id")["visited"].diff().dt.days.dropna()

    @property
    def stays(self) -> pd.Series:
        """Days from a visit to its discharge."""
        return (self.visits["discharged"] - self.visits["visited"]).dt.days.dropna()


def dated(patients: pd.DataFrame, visits: pd.DataFrame) -> Tables:
    days = {name: pd.to_datetime(visits[name]) for name in ("visited", "arrived", "discharged")}
    return Tables(patients.assign(born=pd.to_datetime(patients["born"])), visits.assign(**days))


@pytest.fixture(scope="module")
def real() -> Tables:
    patients, visits = (table.to_pandas() for table in clinic())
    return dated(patients, visits.sort_values(["patient_id", "visited"]))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory) -> Tables:
    """As many patients as real ones, of a release as the demo's YAML asks for it."""
    folder = tmp_path_factory.mktemp("demo")
    asked = yaml.safe_load((Path(str(defs.__file__)).parent / "clinic" / "defs.yaml").read_text())["attributes"]
    relations = {name: {k: v for k, v in t.items() if k != "source"} for name, t in asked["tables"].items()}
    ledger = dps.Ledger.open(f"sqlite:///{folder}/ledger.db")
    ledger.open_account("clinic", epsilon=asked["epsilon"] * 1.5, delta=1e-5, unit="patient_id")
    how = {"table": "clinic", "store": Store(folder / "store"), "training": asked["training"], "show": False}
    fitter = dps.Synthesizer("clinic", asked["epsilon"], ledger, **how)
    model = fitter.fit(dict(zip(("patients", "visits"), clinic(), strict=True)), relations=relations)
    tables = model.sample(6_000)
    return dated(tables["patients"], tables["visits"])


def test_every_visit_is_a_synthetic_patient_s(drawn):
    assert drawn.patients["patient_id"].is_unique
    assert drawn.visits["visit_id"].is_unique
    assert set(drawn.visits["patient_id"]) <= set(drawn.patients["patient_id"])


def test_patients_have_as_many_visits_as_they_have(drawn, real):
    assert 0.5 * (drawn.counts - real.counts).abs().sum() < 0.1


def test_visits_of_a_patient_are_in_order_and_as_far_apart_as_they_are(drawn, real):
    assert (drawn.gaps >= 0).all()
    assert drawn.gaps.median() == pytest.approx(real.gaps.median(), rel=0.4)
    assert drawn.gaps.mean() == pytest.approx(real.gaps.mean(), rel=0.3)


def test_no_visit_lies_outside_the_two_years_of_the_register(drawn, real):
    for tables in (drawn, real):
        assert tables.visits["visited"].between("2022-01-01", "2023-12-31").all()


def test_nobody_visits_before_birth(drawn, real):
    for tables in (drawn, real):
        assert (tables.together["visited"] >= tables.together["born"]).all()


def test_a_patient_has_one_sex_and_sexes_are_as_frequent_as_they_are(drawn, real):
    assert (drawn.together.groupby("patient_id")["sex"].nunique() == 1).all()
    shares = drawn.patients["sex"].value_counts(normalize=True)
    assert shares["F"] == pytest.approx(real.patients["sex"].value_counts(normalize=True)["F"], abs=0.05)


def test_patients_arrive_on_the_day_of_their_visit_and_stay_as_long_as_they_do(drawn, real):
    """Order is certain. Noise moves a cell of stays by tens of rows; the median would leave its bounds by hundreds."""
    assert (drawn.visits["arrived"] >= drawn.visits["visited"]).all()
    assert (drawn.visits["arrived"].dt.normalize() == drawn.visits["visited"]).mean() > 0.99
    assert (drawn.stays >= 0).all()
    assert real.stays.median() == 4
    assert drawn.stays.median() == pytest.approx(4, abs=1)
    assert drawn.stays.mean() == pytest.approx(real.stays.mean(), rel=0.25)


def test_both_views_of_the_clinic_are_the_same_visits(real):
    flat = clinic_visits().to_pandas()
    assert len(flat) == len(real.visits)
    assert flat.groupby("patient_id")["sex"].nunique().max() == 1
    joined = real.together.sort_values(["patient_id", "arrived", "cost"])
    flat = flat.sort_values(["patient_id", "arrived", "cost"])
    for name in ("patient_id", "sex", "region", "diagnosis", "cost"):
        assert (joined[name].to_numpy() == flat[name].to_numpy()).all()
