"""Privacy evidence of a run: what the restricted report says with a holdout, and the training's audit on the card."""

import json
import shutil
from dataclasses import replace
from html import unescape

import numpy as np
import pandas as pd
import pytest

from dp_synth_pipeline.errors import DpSynthError, InvalidInput
from dp_synth_pipeline.privacy.audit import NAMES
from dp_synth_pipeline.reporting import quality_report
from dp_synth_pipeline.synthesis import generator_files, holdout
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular.sources import ingestion
from dp_synth_pipeline.validation import evidence
from tests.integration.conftest import failure, lent, people

TRAINING = {"method": "autoregressive", "start": "random", "max_epochs": 1, "rake": False}
CANARY = "Zanzibar"


def others() -> pd.DataFrame:
    """Rows of the same population, one of which holds a word that must never leave."""
    rng = np.random.default_rng()
    rows = people(500)
    rows = rows.apply(lambda c: c.to_numpy()[rng.permutation(len(c))])
    return rows.assign(city=[CANARY, *rows["city"][1:]])


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evidence")
    others().to_parquet(folder / "holdout.parquet")
    with lent(folder, f"sqlite:///{folder / 'ledger.db'}") as bench:
        asked = {"sensitive": ["city"], "holdout": str(folder / "holdout.parquet")}
        result = bench.refresh(validation=asked, training=TRAINING)
        assert result.success, failure(result)
        yield bench, result


def handles(result):
    return [RunState.from_dict(result.output_for_node(f"people__{n}")) for n in ("synthetic", "completed")]


def test_the_report_shows_distances_and_both_attacks_with_their_intervals(done) -> None:
    bench, _ = done
    page = (bench.store / "restricted/people/quality_report.html").read_text()
    section = page[page.index("<h2>Privacy evidence") : page.index("<h2>How to read")]
    needed = ["Nearer to rows that were learnt from", "Guess who was learnt from: AUC", "Guess city from all else"]
    needed += ["99 % interval", "Only ε is a guarantee", "Cannot show", "against 500 rows that were learnt from"]
    assert [text for text in needed if text not in section] == []
    assert "Not asked for" not in section


def test_nothing_of_the_holdout_or_of_the_verdict_leaves_the_restricted_folder(done) -> None:
    bench, result = done
    told = " ".join(str(e) for e in bench.instance.all_logs(result.run_id))
    checks = {e.check_name for e in result.get_asset_check_evaluations()}
    assert not [name for name in checks if "evidence" in name or "closeness" in name or "attack" in name]
    for word in (CANARY, "nearer_training", "better than chance", "membership"):
        assert word not in told
        assert not [
            p for p in (bench.store / "releasable").rglob("*") if p.is_file() and word.encode() in p.read_bytes()
        ]


def test_the_copy_of_the_holdout_is_deleted_with_the_report(done) -> None:
    bench, _ = done
    left = [p.name for p in (bench.store / "restricted").rglob("*") if "holdout" in p.name]
    assert left == []


def test_the_card_shows_the_audit_of_its_own_training(done) -> None:
    bench, _ = done
    folder = bench.store / "releasable/people"
    card = json.loads((folder / "release_card.json").read_text())
    audit = json.loads((folder / "generator/audit.json").read_text())
    assert card["audit"] == audit["findings"]
    assert [a["name"] for a in card["audit"]] == list(NAMES)
    for page in ("release_card.html", "release_card.md"):
        told = (folder / page).read_text()
        assert all(
            text in told for text in ("Noise multiplier", "Sampling rate", f"{audit['findings'][0]['high']:.4g}")
        )


def test_the_audit_of_another_training_is_not_shown(done, tmp_path) -> None:
    bench, _ = done
    (release,) = bench.ledger.releases("people")
    folder = bench.store / "releasable/people/generator"
    assert len(generator_files.findings(folder, release.id)) == 3
    assert generator_files.findings(folder, "another release") == []
    assert generator_files.findings(tmp_path, release.id) == []


def test_a_holdout_that_is_the_very_source_says_nothing(done) -> None:
    bench, result = done
    synthetic, completed = handles(result)
    shutil.copy(bench.folder / "people.parquet", bench.folder / "copy.parquet")
    same = bench.settings(validation={"holdout": str(bench.folder / "copy.parquet")}, training=TRAINING)
    assert holdout.gather(same, synthetic, completed).missing == evidence.SAME
    assert holdout.gather(bench.settings(), synthetic, completed).missing == evidence.HOW


def test_the_snapshot_of_another_release_says_nothing(done) -> None:
    bench, result = done
    synthetic, completed = handles(result)
    settings = bench.settings(validation={"holdout": str(bench.folder / "holdout.parquet")})
    assert holdout.gather(settings, synthetic, replace(completed, release="r2")).missing == holdout.OTHER_RELEASE


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (lambda t: t.drop(columns="income"), "'income' is missing"),
        (lambda t: t.assign(income="much"), "'income' is of kind decimal"),
    ],
)
def test_a_holdout_of_other_columns_is_refused_without_a_value(done, rows, says) -> None:
    bench, result = done
    rows(others()).to_parquet(bench.folder / "odd.parquet")
    settings = bench.settings(validation={"holdout": str(bench.folder / "odd.parquet")})
    with pytest.raises(InvalidInput, match=says) as error:
        holdout.gather(settings, *handles(result))
    assert CANARY not in str(error.value)


def test_whole_numbers_in_the_holdout_stand_for_decimals(done) -> None:
    bench, result = done
    rows = others()
    rows.assign(income=rows["income"].round().astype(int)).to_parquet(bench.folder / "whole.parquet")
    settings = bench.settings(validation={"holdout": str(bench.folder / "whole.parquet")})
    assert holdout.gather(settings, *handles(result)).closeness is not None


def unreadable(bench):
    """Settings with a holdout whose last line cannot be read."""
    path = bench.folder / "broken.csv"
    path.write_text(others().to_csv(index=False) + f'1,2,"{CANARY}\n')
    return bench.settings(validation={"holdout": str(path)}, training=TRAINING)


def test_rows_of_a_holdout_that_cannot_be_read_to_their_end_are_no_public_fact(done) -> None:
    bench, result = done
    with pytest.raises(DpSynthError, match="validation: holdout: ") as error:
        holdout.gather(unreadable(bench), *handles(result))
    assert not isinstance(error.value, InvalidInput)
    assert CANARY not in str(error.value)
    assert not [*(bench.store / "restricted").rglob("holdout-*")]


def test_whatever_ends_the_reading_of_a_holdout_is_no_public_fact_but_that_it_is_missing_is(done, monkeypatch) -> None:
    bench, result = done

    def broken(self, path):
        raise InvalidInput("the disk is full")

    monkeypatch.setattr(ingestion.Opened, "copy", broken)
    asked = [bench.settings(validation={"holdout": str(bench.folder / n)}) for n in ("holdout.parquet", "gone.parquet")]
    with pytest.raises(DpSynthError, match="validation: holdout: the disk is full") as error:
        holdout.gather(asked[0], *handles(result))
    assert not isinstance(error.value, InvalidInput)
    with pytest.raises(InvalidInput, match=r"validation: holdout: .*no such file"):
        holdout.gather(asked[1], *handles(result))


def test_a_holdout_that_cannot_be_read_leaves_a_report_without_evidence(done, monkeypatch, tmp_path) -> None:
    bench, result = done
    monkeypatch.setattr(quality_report, "_place", lambda release: tmp_path / "page.html")
    synthetic, completed = handles(result)
    release = Release.open(unreadable(bench), synthetic, bench.ledger, Store(bench.store))
    found = quality_report.write(release, completed, "run")
    assert (found.missing, found.closeness, found.attacks) == (quality_report.FAILED, None, ())
    page = unescape((tmp_path / "page.html").read_text())
    assert quality_report.FAILED in page[page.index("<h2>Privacy evidence") :]
    assert '<figure class="panel">' in page
    assert "validation: holdout" in (release.restricted / quality_report.FAILURE).read_text()


@pytest.mark.parametrize(("name", "says"), [("nowhere", "no such file"), ("odd", "'seen' is of kind datetime")])
def test_a_holdout_that_is_not_there_or_does_not_fit_is_refused_before_a_charge(bench, name, says) -> None:
    others().assign(seen=CANARY).to_parquet(bench.folder / "odd.parquet")
    result = bench.refresh(validation={"holdout": str(bench.folder / f"{name}.parquet")})
    assert not result.success
    told = failure(result).user_failure_data.description
    assert says in told
    assert told.count("validation: holdout") == 1
    assert CANARY not in told
    assert [r.state for r in bench.ledger.releases("people")] == ["voided"]


def test_the_source_is_no_holdout(bench) -> None:
    with pytest.raises((InvalidInput, ValueError), match="it is the source itself"):
        bench.settings(validation={"holdout": str(bench.folder / "people.parquet")})


def test_a_person_may_let_the_verdicts_into_the_event_log_and_the_card_says_so(done, tmp_path) -> None:
    bench, _ = done
    holdout = str(bench.folder / "holdout.parquet")
    asked = {"holdout": holdout, "evidence_checks": True}
    result = bench.refresh(
        validation=asked, training={"method": "marginals"}, epsilon=1.0, target=str(tmp_path / "t.parquet")
    )
    assert result.success, failure(result)
    told = {e.check_name: e.passed for e in result.get_asset_check_evaluations() if "evidence" in e.check_name}
    assert set(told) == {"evidence_closeness", "evidence_membership", "evidence_attributes"}
    assert "a bit each, without noise" in (bench.store / "releasable/people/release_card.html").read_text()
