"""The fidelity report of a run: what it shows, where it stays, and the figures that may leave since they were charged."""

import json
from dataclasses import replace
from functools import partial
from html import unescape
from types import SimpleNamespace

import pyarrow as pa
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.marginals import mixture
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.reporting import quality_report
from dp_synth_pipeline.synthesis import allocation
from dp_synth_pipeline.synthesis.allocation import Calibrated
from dp_synth_pipeline.synthesis.mechanisms.accuracy import Accuracy
from dp_synth_pipeline.synthesis.protection import LedgerProtection
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.release_plan import ACCURACY
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.validation import dp_metrics, figures
from tests.integration.conftest import failure, lent

FIGURES = {"accuracy_one", "accuracy_two"}


def facts(result) -> dict:
    return {e.asset_key.path[-1]: e.materialization.metadata for e in result.get_asset_materialization_events()}


# The first leaves nothing unspent after the marginals, the second nothing after training.
@pytest.fixture(scope="module", params=["marginals", "autoregressive"])
def done(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("fidelity")
    asked = {"predict": "smoker", "sensitive": ["city"], "report_epsilon": 0.5}
    training = {"method": request.param, "start": "random", "max_epochs": 1, "rake": False}
    with pytest.MonkeyPatch.context() as patch, lent(folder, f"sqlite:///{folder / 'ledger.db'}") as bench:
        patch.setattr(mixture, "fit", partial(mixture.fit, steps=20))
        result = bench.refresh(validation=asked, training=training)
        assert result.success, failure(result)
        yield bench, result


def test_the_report_shows_the_declared_groups_and_the_declared_prediction(done) -> None:
    bench, _ = done
    page = (bench.store / "restricted/people/quality_report.html").read_text()
    assert "city: Rome" in page
    assert "rows predicted wrong" in page


def test_the_report_lies_in_the_restricted_folder_alone(done) -> None:
    bench, _ = done
    pages = [p for p in bench.folder.rglob("*quality_report*") if p.suffix == ".html"]
    assert [p.relative_to(bench.store).parts[0] for p in pages] == ["restricted"]
    assert pages[0].stat().st_mode & 0o077 == 0
    assert not [p for p in (bench.store / "releasable").rglob("*.html") if "RESTRICTED" in p.read_text()]


def test_no_figure_of_the_report_goes_to_metadata(done) -> None:
    _, result = done
    told = facts(result)["quality_report"]
    assert set(told) <= {"visibility", "page"}
    assert told["visibility"].value == "restricted"


def test_charged_figures_are_in_the_ledger_in_metadata_and_on_the_card(done) -> None:
    bench, result = done
    (release,) = bench.ledger.releases("people")
    entries = {e.mechanism: e for e in bench.ledger.entries(release_id=release.id)}
    assert sum(e.pure_epsilon for e in entries[ACCURACY].events) == pytest.approx(0.5)
    told = facts(result)["generator"]
    assert set(told) >= FIGURES
    assert 0.3 < told["accuracy_one"].value <= 1
    card = json.loads((bench.store / "releasable/people/release_card.json").read_text())
    assert set(card["accuracy"]) >= FIGURES
    assert entries[ACCURACY].id in [m["entry"] for m in card["mechanisms"]]
    assert "Accuracy, two columns" in (bench.store / "releasable/people/release_card.html").read_text()


def test_the_release_costs_no_more_with_charged_figures(done) -> None:
    bench, _ = done
    (release,) = bench.ledger.releases("people")
    events = [event for e in bench.ledger.entries(release_id=release.id) for event in e.events]
    assert 3.5 < accountant.epsilon(events, release.final_delta) <= 4.0
    assert bench.ledger.verify().releases == 1


def test_a_second_attempt_never_looks_again_for_one_charge(done) -> None:
    bench, _ = done
    (release,) = bench.ledger.releases("people")
    settings = bench.settings(validation={"report_epsilon": 0.5})
    assert Calibrated(settings, release).accuracy(6) == dp_metrics.ChargedPlan(6, 1, 0.5)
    store = Store(bench.store)
    again = Release(settings, LedgerProtection(settings, bench.ledger), store, RunState(release.id))
    codec = SimpleNamespace(cardinalities=[2] * 6)
    assert Accuracy(codec, 100).begin(again) is None  # type: ignore[arg-type]


def test_replacing_a_unit_halves_the_figures_own_epsilon(done) -> None:
    bench, _ = done
    (release,) = bench.ledger.releases("people")
    settings = bench.settings(validation={"report_epsilon": 0.5})
    plan = Calibrated(settings, replace(release, relation="replace-one")).accuracy(6)
    assert plan is not None
    assert accountant.epsilon(plan.events, 1e-9, "replace-one") == pytest.approx(0.5)


def test_the_profile_leaves_the_figures_their_epsilon(bench) -> None:
    columns = build({"x": pa.float64(), "a": pa.string()})
    asked = allocation.BudgetRequest(1.0, 1e-5, 5e-9)
    plain, less = (
        allocation.plan_profile(bench.settings(epsilon=1.0, population=1000, **more), asked, columns)
        for more in ({}, {"validation": {"report_epsilon": 0.25}})
    )
    smaller = allocation.plan_profile(
        bench.settings(epsilon=0.75, population=1000), replace(asked, epsilon=0.75), columns
    )
    assert less.histogram_events(columns) == smaller.histogram_events(columns) != plain.histogram_events(columns)


def test_without_report_epsilon_nothing_is_charged_for_figures(bench) -> None:
    settings = bench.settings()
    asked = {"table": "people", "run_id": "r", "code_version": "c", "epsilon": 1.0, "delta": 1e-5}
    release = bench.ledger.reserve("people", key="k", **asked)
    assert Calibrated(settings, release).accuracy(6) is None
    assert bench.ledger.entries(release_id=release.id) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"validation": {"report_epsilon": 1.5}}, "at most a quarter"),
        ({"validation": {"report_epsilon": 0.1}, "plan": "weekly"}, "declared plan"),
        (
            {
                "validation": {"report_epsilon": 0.1},
                "privacy": "none",
                "public": {"why": "open data", "by": "Ana"},
                "account": None,
                "epsilon": None,
            },
            "nothing is charged",
        ),
    ],
)
def test_a_report_epsilon_that_nothing_could_pay_for_is_refused(bench, changes, says) -> None:
    with pytest.raises((InvalidInput, ValueError), match=says):
        bench.settings(**changes)


def test_a_declared_column_that_the_table_lacks_is_refused_before_a_charge(bench) -> None:
    result = bench.refresh(validation={"predict": "diagnosis"})
    assert not result.success
    assert "diagnosis" in failure(result).user_failure_data.description
    assert [r.state for r in bench.ledger.releases("people")] == ["voided"]


def test_a_report_that_fails_over_real_rows_ends_no_release_and_tells_their_owner(bench, monkeypatch, capfd) -> None:
    def broken(*_, **__):
        raise ValueError("CANARY")

    monkeypatch.setattr(figures, "measure", broken)
    result = bench.refresh(training={"method": "marginals"})
    assert result.success, failure(result)
    folder = bench.store / "restricted/people"
    assert quality_report.FAILED in unescape((folder / "quality_report.html").read_text())
    assert json.loads((folder / "quality_report.headline").read_text()) == {"told": quality_report.FAILED}
    (details,) = folder.glob("*/report-failed.txt")
    assert "ValueError: CANARY" in details.read_text()
    assert {p.stat().st_mode & 0o777 for p in (details, *folder.glob("quality_report.*"))} == {0o600}
    told = [*capfd.readouterr(), *result.all_events, *bench.instance.all_logs(result.run_id)]
    assert [word for word in ("CANARY", "No figures", "ValueError") if word in " ".join(map(repr, told))] == []
    assert set(facts(result)["quality_report"]) <= {"visibility", "page"}
    elsewhere = [p for p in bench.folder.rglob("*") if p.is_file() and p != details]
    assert [p for p in elsewhere if b"CANARY" in p.read_bytes()] == []
