"""Settings of related tables take the terms of a release over, and static columns that were found."""

import copy
import json
from dataclasses import asdict
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.autoregressive.spec import Start
from dp_synth_pipeline.relations.structure import Related
from dp_synth_pipeline.synthesis.database import learning
from dp_synth_pipeline.synthesis.database.settings import DatabaseSettings

TABLES = {
    "patients": {"source": "patients.parquet", "key": "id"},
    "visits": {"source": "visits.parquet", "parent": {"id": "patients"}, "columns": {"sex": {"kind": "category"}}},
}


def settings(**changes):
    return DatabaseSettings(**{"database": "clinic", "account": "clinic", "epsilon": 1.0, "tables": TABLES, **changes})


def test_the_terms_of_a_release_are_taken_over_and_stay_as_they_are():
    terms = {"tables": settings().terms()["tables"]}
    kept = copy.deepcopy(terms)
    today = settings(tables={**TABLES, "visits": {**TABLES["visits"], "source": "moved.parquet", "max_rows": 3}})
    found = today.with_terms(terms)
    assert (found.tables["visits"].max_rows, found.tables["visits"].source) == (10, "moved.parquet")
    assert terms == kept, "a record that was changed is taken for changed by hand"


def test_static_columns_that_were_found_keep_what_was_declared_of_them_and_change_no_settings():
    asked = settings()
    found = asked.with_found({"visits": ("sex", "born")}, {})
    assert found.relations["visits"].static == ("sex", "born")
    assert found.learnt("patients").columns["visits.sex"] == {"kind": "category"}
    assert "static" not in str(found.member("visits").columns)
    assert asked.relations["visits"].static == ()


def test_increasing_columns_that_were_found_are_carried_and_keep_what_was_declared_of_them():
    columns = {**TABLES["visits"].get("columns", {}), "age": {"lower": 0}, "left": {"monotone": "decreasing"}}
    asked = settings(tables={**TABLES, "visits": {**TABLES["visits"], "columns": columns}})
    found = asked.with_found({"visits": ("sex",)}, {"visits": ("age",)})
    visits = found.relations["visits"]
    assert (visits.static, visits.increasing, visits.decreasing) == (("sex",), ("age",), ("left",))
    assert visits.carries == ("sex", "age", "left")
    assert found.learnt("patients").columns["visits.age"] == {"lower": 0}
    assert "monotone" not in str(found.member("visits").columns)
    assert Related.of(json.loads(json.dumps(asdict(visits)))) == visits
    assert Related.of({"name": "visits", "static": ["sex"]}) == Related("visits", static=("sex",)), (
        "of an earlier version"
    )


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"monotone": "up"}, r"columns.age: monotone: expected increasing, decreasing or false, got 'up'"),
        ({"monotone": True}, "expected increasing, decreasing or false, got True"),
        ({"monotone": "increasing", "static": True}, "it is declared static and monotone; keep one of the two"),
    ],
)
def test_a_direction_that_there_is_not_is_refused(facts, said):
    with pytest.raises((InvalidInput, ValidationError), match=said):
        settings(tables={**TABLES, "visits": {**TABLES["visits"], "columns": {"age": facts}}})


def test_tables_below_the_first_learn_all_layers_since_they_start_from_marginals():
    member = settings(training={"start": "warm_start", "train_only": "heads", "hidden": 8}).learnt("visits")
    release = SimpleNamespace(settings=member, allocation=SimpleNamespace(noise=lambda population: 0.001))
    spec = learning._sized(release, columns=5, population=1000)
    assert (spec.start, spec.train_only, spec.hidden) == (Start.MARGINALS, None, 8)


def test_related_tables_may_remember_in_the_words_of_a_single_table():
    asked = settings(refresh={"remember": True, "epsilon": 0.25})
    assert (asked.whole.refresh.epsilon, asked.member("visits").refresh.remember) == (0.25, True)
    assert all(asked.learnt(name).reuse_profile for name in TABLES)
    assert not settings().member("visits").reuse_profile
    assert asked.code_version() != settings().code_version()


@pytest.mark.parametrize(
    ("changes", "conflict"),
    [
        ({"training": {"method": "autoregressive"}}, "method: autoregressive"),
        ({"training": {"rake": False}}, "rake: false"),
        (
            {
                "tables": {
                    **TABLES,
                    "notes": {**TABLES["visits"], "columns": {"note": {"kind": "text", "max_length": 9}}},
                }
            },
            "kind: text",
        ),
    ],
)
def test_what_a_single_table_s_memory_does_not_go_with_related_ones_does_not_either(changes, conflict):
    with pytest.raises(ValueError, match=f"refresh: remember: it does not go with.*{conflict}"):
        settings(refresh={"remember": True}, **changes)
