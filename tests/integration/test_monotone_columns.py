"""Numbers that never fall in a person's rows do not fall in a synthetic person's, whether they were declared or found."""

import re

import numpy as np
import pandas as pd
import pytest

import dp_synth_pipeline as dps
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.synthesis import generator_files
from tests.integration.test_databases import QUICK, VISITS_ALONE, synthesizer

DAY = {"kind": "date", "format": "%Y-%m-%d"}


def visits(patients=4000):
    """Return yearly visits: an age, what was paid so far, the pills that are left, a wage that is often raised, and a score.

    A dose is another one now and then.
    """
    rng = np.random.default_rng(5)
    person = np.repeat(np.arange(patients), 1 + np.arange(patients) % 5)
    place = np.arange(len(person)) - np.searchsorted(person, person)
    first = rng.integers(18, 70, patients)[person]
    changes = (rng.random(len(person)) < 0.3) | (place == 0)
    dose = rng.gamma(4, 20, len(person)).round(1)[np.maximum.accumulate(np.where(changes, np.arange(len(person)), 0))]
    raised = np.cumsum(rng.random(len(person)) < 0.8)
    years = 2015 + rng.integers(0, 4, patients)[person] + place
    return pd.DataFrame(
        {
            "visit_id": np.arange(len(person)),
            "patient_id": person,
            "visited": pd.to_datetime(
                [f"{year}-05-{1 + p % 28:02d}" for year, p in zip(years, person, strict=True)]
            ).date,
            "age": first + place,
            "paid": np.round(0.1 + place * (0.2 + (person % 3) / 10), 1),
            "left": 40 - 7 * place,
            "wage": np.round(
                1000 + 37.7 * (person % 97) + 11.3 * (raised - raised[np.searchsorted(person, person)]), 2
            ),
            "dose": dose,
            "score": rng.integers(0, 60, len(person)),
        }
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("monotone")
    visits().to_csv(folder / "visits.csv", index=False)
    fitter, ledger = synthesizer(folder, epsilon=5.0, training=QUICK)
    columns = {"visited": DAY, "left": {"monotone": "decreasing"}}
    relations = {**VISITS_ALONE, "visits": {**VISITS_ALONE["visits"], "columns": columns}}
    return fitter.fit({"visits": str(folder / "visits.csv")}, relations=relations), ledger


@pytest.fixture(scope="module")
def drawn(found):
    return found[0].sample(1500)["visits"]


def steps(rows, name):
    return rows.groupby("patient_id")[name].diff().dropna().astype(float)


def test_numbers_of_a_csv_that_never_fall_are_found_and_one_that_never_rises_was_declared(found):
    (_, table), ledger = found[0].relations, found[1]
    assert set(table.increasing) == {"age", "paid", "wage"}
    assert table.decreasing == ("left",)
    assert table.static == ()
    assert next(e.mechanism for e in ledger.entries("patients")) == "static columns of patients"


def test_drawn_numbers_keep_their_direction_and_look_like_themselves(drawn):
    real = visits()
    assert list(drawn.columns) == list(real.columns)
    for name, sign in (("age", 1), ("paid", 1), ("wage", 1), ("left", -1)):
        assert (sign * steps(drawn, name) >= 0).all(), name
        assert steps(drawn, name).mean() == pytest.approx(steps(real, name).mean(), rel=0.25), name
        assert drawn[name].astype(float).mean() == pytest.approx(real[name].mean(), rel=0.1), name
    assert (steps(drawn, "score") < 0).mean() > 0.3
    assert drawn["age"].dtype == drawn["left"].dtype == "int64"
    assert (steps(drawn, "age") == 1).mean() > 0.8
    written = drawn["paid"].astype(str)
    assert written.str.fullmatch(r"\d+\.\d").all(), "sums of tenths are tenths"


def test_a_number_that_goes_up_and_down_stays_as_it_was_about_as_often_as_it_does(found, drawn):
    real, synthetic = ((steps(rows, "dose") == 0).mean() for rows in (visits(), drawn))
    assert staying(found[0])
    assert synthetic == pytest.approx(real, abs=0.12)
    assert (steps(drawn, "dose") < 0).any()
    assert (steps(drawn, "score") == 0).mean() < 0.15


def test_persons_differ_in_where_their_numbers_begin(drawn):
    firsts = drawn.groupby("patient_id")["age"].first()
    assert firsts.nunique() > 35
    assert firsts.std() == pytest.approx(visits().groupby("patient_id")["age"].first().std(), rel=0.25)


def test_nobody_draws_persons_by_where_a_number_begins(found):
    with pytest.raises(InvalidInput, match=r"'visits\.age' is a column of visits"):
        found[0].sample(10, where="visits.age > 50")


def test_a_saved_model_draws_them_as_well(found, tmp_path):
    found[0].save(tmp_path / "clinic.dps")
    again = dps.load(tmp_path / "clinic.dps").sample(200)["visits"]
    assert (steps(again, "age") >= 0).all()
    assert (steps(again, "left") <= 0).all()


def test_the_card_names_the_columns(found):
    card = str(found[0].card().to_dict())
    assert re.search("never falling: .*age", card)
    assert "never rising: left" in card


def test_refreshes_that_remember_know_what_was_found_before_and_count_it_no_more(tmp_path):
    visits().to_csv(tmp_path / "visits.csv", index=False)
    columns = {"visited": DAY, "left": {"monotone": "decreasing"}}
    relations = {**VISITS_ALONE, "visits": {**VISITS_ALONE["visits"], "columns": columns}}
    for refresh in range(2):
        fitter, ledger = synthesizer(tmp_path, epsilon=5.0, refresh={"remember": True, "epsilon": 0.5})
        model = fitter.fit({"visits": str(tmp_path / "visits.csv")}, relations=relations)
        table = model.relations["visits"]
        assert ({*table.increasing}, table.decreasing, table.static) == ({"age", "paid", "wage"}, ("left",), ()), (
            refresh
        )
        assert (steps(model.sample(200)["visits"], "age") >= 0).all()
    assert sum("static" in e.mechanism for e in ledger.entries("patients")) == 1
    assert not staying(model), "earlier versions counted codes of which none stays"


def staying(model):
    """Return which numbers of a visit may be as in the one before."""
    return generator_files.facts(model.folder / "visits")["context"]["numbers"]


def test_what_somebody_declared_costs_nothing_and_what_was_declared_not_to_be_so_is_not_looked_at(tmp_path):
    fitter, ledger = synthesizer(tmp_path, epsilon=5.0)
    declared = {"age": "increasing", "paid": False, "left": "decreasing", "wage": False, "dose": False, "score": False}
    columns = {name: {"monotone": fact, **({} if fact else {"static": False})} for name, fact in declared.items()}
    relations = {**VISITS_ALONE, "visits": {**VISITS_ALONE["visits"], "columns": columns}}
    model = fitter.fit({"visits": visits(600)}, relations=relations)
    assert not [e for e in ledger.entries("patients") if "static" in e.mechanism]
    assert model.relations["visits"].monotone == ("age", "left")
    assert (steps(model.sample(100)["visits"], "age") >= 0).all()


def test_a_mistake_about_monotone_columns_is_told_before_anything_is_spent(tmp_path):
    fitter, ledger = synthesizer(tmp_path)
    for columns, said in (
        ({"visited": {"monotone": "increasing"}}, "visited: monotone: rows are ordered by it"),
        ({"score": {"monotone": "upwards"}}, "expected increasing, decreasing or false, got 'upwards'"),
        ({"ages": {"monotone": "increasing"}}, "declared column 'ages' is not in the source"),
    ):
        relations = {**VISITS_ALONE, "visits": {**VISITS_ALONE["visits"], "columns": columns}}
        with pytest.raises(InvalidInput, match=said):
            fitter.fit({"visits": visits(20)}, relations=relations)
    assert {r.state for r in ledger.releases("patients")} <= {"voided"}
