"""What a release was charged for is frozen when it is reserved: no later step measures under other terms."""

import json

import dagster as dg
import pytest

from dp_synth_pipeline.tabular.profiling import measure
from tests.integration.conftest import Bench, failure

REST = ("profile", "completed", "marginals", "generator", "synthetic", "published", "quality_report", "release_card")
UNIT = {"column": "person", "max_rows": 2}


def step(bench: Bench, *names: str, **changes) -> tuple[bool, str]:
    """Materialize some assets of the table, under settings of the moment; return how it went, and why not."""
    job = bench.definitions(**changes).resolve_job_def("people_refresh")
    result = job.execute_in_process(
        instance=bench.instance,
        raise_on_error=False,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        asset_selection=[dg.AssetKey(["people", name]) for name in names],
    )
    failed = [e.step_failure_data.user_failure_data for e in result.all_events if e.event_type_value == "STEP_FAILURE"]
    return result.success, next((f.description or "" for f in failed if f is not None), "")


@pytest.fixture
def persons(bench: Bench) -> Bench:
    """A bench whose account protects persons of two rows each."""
    bench.ledger.open_account("persons", epsilon=10.0, delta=1e-4, unit="person", max_rows=2, why="test")
    return bench


def of_persons(**changes) -> dict:
    return {"account": "persons", "columns": {}, "unit": UNIT, **changes}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"unit": {"column": "person", "max_rows": 1}}, "unit.max_rows"),
        ({"unit": "row"}, "unit"),
        ({"epsilon": 5.0}, "epsilon"),
        ({"account": "people"}, "account"),
        ({"delta": 1e-6}, "delta"),
        ({"filter": "age > 30"}, "filter"),
        ({"population": 300}, "population"),
        ({"plan": "weekly"}, "plan"),
        ({"nulls": "drop"}, "nulls"),
        ({"training": {"max_epochs": 3}}, "training.max_epochs"),
        ({"validation": {"report_epsilon": 0.1}}, "report_epsilon"),
    ],
)
def test_a_charged_setting_that_changes_between_two_steps_is_refused_by_its_name(persons, changes, named):
    assert step(persons, "ingested", **of_persons())[0]
    went_well, why = step(persons, "profile", **of_persons(**changes))
    assert not went_well
    assert why.startswith(f"{named} changed since release")
    assert "dp-synth ledger void" in why
    assert not persons.ledger.entries(), "nothing was measured, so nothing is charged"


def test_a_release_goes_on_once_its_terms_are_back_and_its_noise_is_that_of_its_unit(persons, monkeypatch):
    honest, moved = measure._Pass._noisy, []
    monkeypatch.setattr(measure._Pass, "_noisy", lambda self, *a: moved.append(self.sensitivity) or honest(self, *a))
    assert step(persons, "ingested", **of_persons())[0]
    assert not step(persons, "profile", **of_persons(unit={"column": "person", "max_rows": 1}))[0]
    assert step(persons, *REST, **of_persons())[0]
    (release,) = persons.ledger.releases("persons")
    assert release.state == "settled"
    assert set(moved) == {2}
    persons.ledger.verify()


def test_what_costs_nothing_may_change_between_two_steps(bench, tmp_path):
    assert step(bench, "ingested")[0]
    free = {"rows": 50, "target": str(tmp_path / "o.parquet"), "description": "Visits.", "retention_days": 3}
    assert step(bench, *REST, **free) == (True, "")


def test_rows_drawn_after_the_settings_changed_are_told_under_the_terms_of_their_release(persons):
    assert step(persons, "ingested", *REST, **of_persons(filter="age > 20"))[0]
    later = of_persons(unit={"column": "person", "max_rows": 1}, filter="age > 50", population=99, epsilon=1.0)
    assert step(persons, "synthetic", "published", "release_card", **later) == (True, "")
    card = json.loads((persons.store / "releasable" / "people" / "release_card.json").read_text())
    facts = card.get("facts", card)
    assert facts["unit_max_rows"] == 2
    assert any("age > 20" in limit for limit in facts["limits"])
    assert any("beyond 2" in limit for limit in facts["limits"])
    assert not any("was declared public" in limit for limit in facts["limits"])


def handle(bench: Bench, name: str):
    return bench.store / "restricted" / "people" / f"{name}.json"


def test_terms_that_were_edited_beside_the_rows_are_refused(bench):
    assert step(bench, "ingested")[0]
    kept = json.loads(handle(bench, "ingested").read_text())
    kept["terms"]["unit"] = {"column": "person", "max_rows": 1}
    handle(bench, "ingested").write_text(json.dumps(kept))
    went_well, why = step(bench, "profile", unit={"column": "person", "max_rows": 1})
    assert not went_well
    assert "changed by hand" in why


@pytest.mark.parametrize("changed", [False, True])
def test_a_release_that_the_version_before_began_goes_on_under_the_same_settings_only(bench, changed):
    assert step(bench, "ingested")[0]
    kept = json.loads(handle(bench, "ingested").read_text())
    for new in ("terms", "ran"):
        del kept[new]
    handle(bench, "ingested").write_text(json.dumps(kept))
    went_well, why = step(bench, "profile", **({"epsilon": 3.0} if changed else {}))
    assert went_well is not changed
    assert ("a setting changed" in why) is changed


def test_a_handle_that_points_at_the_real_rows_publishes_nothing(bench, tmp_path):
    target = tmp_path / "o.parquet"
    assert step(bench, "ingested", *REST, target=str(target))[0]
    drawn = target.read_bytes()
    kept = json.loads(handle(bench, "synthetic").read_text())
    kept["files"]["synthetic"] = kept["files"]["snapshot"]
    handle(bench, "synthetic").write_text(json.dumps(kept))
    went_well, why = step(bench, "published", target=str(target))
    assert not went_well
    assert "is not the one that was drawn under this release" in why
    assert target.read_bytes() == drawn


def test_drawn_rows_that_somebody_changed_are_not_published(bench, tmp_path):
    target = tmp_path / "o.parquet"
    assert step(bench, "ingested", *REST[:5], target=str(target))[0]
    drawn = bench.store / "releasable" / "people" / "synthetic.parquet"
    drawn.write_bytes(drawn.read_bytes() + b" ")
    assert not step(bench, "published", target=str(target))[0]
    assert not target.exists()


def test_a_target_that_became_a_link_to_the_source_meanwhile_is_not_written(bench, tmp_path):
    source, target = tmp_path / "people.parquet", tmp_path / "o.parquet"
    rows = source.read_bytes()
    assert step(bench, "ingested", *REST[:5], target=str(target))[0]
    aside = tmp_path / "aside.parquet"
    target.symlink_to(aside)
    definitions = bench.definitions(target=str(target))  # read while the link led elsewhere
    target.unlink()
    target.symlink_to(source)
    job = definitions.resolve_job_def("people_refresh")
    done = job.execute_in_process(
        instance=bench.instance, raise_on_error=False, asset_selection=[dg.AssetKey(["people", "published"])]
    )
    assert not done.success
    assert "it is the source itself" in failure(done).user_failure_data.description
    assert source.read_bytes() == rows


@pytest.mark.parametrize(
    "more",
    [
        {"kind": "discrete_gaussian", "scale": 3.0, "sensitivity": 1, "count": 1},
        {"kind": "gaussian", "noise_multiplier": 0.5, "count": 1},
    ],
)
def test_a_release_in_which_something_ran_that_was_not_charged_is_not_settled(bench, more):
    assert step(bench, "ingested", *REST[:3])[0]
    kept = json.loads(handle(bench, "marginals").read_text())
    kept["ran"].append(more)
    handle(bench, "marginals").write_text(json.dumps(kept))
    went_well, why = step(bench, "generator")
    assert not went_well
    assert "is not what was charged for it" in why
    (release,) = bench.ledger.releases("people")
    assert release.state == "started", "it stays charged until a person ends it"
    assert not (bench.store / "releasable" / "people" / "generator").exists()


def test_what_ran_lies_beside_the_weights_and_is_what_was_charged(bench):
    assert step(bench, "ingested", *REST[:4])[0]
    (release,) = bench.ledger.releases("people")
    entries = bench.ledger.entries(release_id=release.id)
    charged = [{"mechanism": entry.mechanism, "event": e.to_dict()} for entry in entries for e in entry.events]
    described = json.loads((bench.store / "releasable" / "people" / "generator" / "generator.json").read_text())
    assert sorted(map(str, described["facts"]["ran"])) == sorted(map(str, charged))
