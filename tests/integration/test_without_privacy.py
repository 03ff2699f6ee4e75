"""`privacy: none`: the same graph, exact, for data that a person declared public; what refuses it, what it leaves alone."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from dp_synth_pipeline.errors import InvalidInput, ReleaseStateError
from dp_synth_pipeline.model.dpsgd import training
from dp_synth_pipeline.orchestration import governance
from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.odometer import Unmetered
from dp_synth_pipeline.synthesis import no_protection, profile_cache, schema_inference, stages
from dp_synth_pipeline.synthesis.protection import LedgerProtection
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from tests.integration.conftest import ROWS, failure, lent, people, steps
from tests.integration.test_chain import LINKS
from tests.integration.test_command_line import GOOD, write

PUBLIC = {"privacy": "none", "public": {"why": "open data", "by": "Ana"}, "account": None, "epsilon": None}
TOLD = "no privacy guarantee: declared public by Ana: open data"
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("public")
    with lent(folder, f"sqlite:///{folder / 'ledger.db'}") as bench:
        before = bench.ledger.head(), bench.ledger.balance("people")
        result = bench.refresh(**PUBLIC)
        assert result.success, failure(result)
        yield bench, result, before


def records(bench) -> list[no_protection.Unprotected]:
    return list(no_protection.releases(Store(bench.store)))


def profile(bench) -> TableProfile:
    return TableProfile.from_json((bench.store / "releasable/people/generator/profile.json").read_text())


def rerun(bench, link, **changes):
    definitions = bench.definitions(**changes)
    keys = [k for k in definitions.resolve_all_asset_keys() if k.path[-1] == link]
    job = definitions.resolve_job_def("people_refresh")
    return job.execute_in_process(instance=bench.instance, raise_on_error=False, asset_selection=keys, run_config=QUIET)


def refused(result) -> str:
    assert not result.success
    return failure(result).user_failure_data.description


def test_the_whole_graph_runs_and_the_ledger_is_as_it_was(done):
    bench, result, before = done
    assert steps(result, "STEP_SUCCESS") == LINKS
    assert (bench.ledger.head(), bench.ledger.balance("people")) == before
    assert bench.ledger.releases() == []
    assert bench.ledger.verify().releases == 0


def test_the_profile_counts_exactly_and_is_not_cached_for_a_protected_refresh(done):
    bench, _, _ = done
    real, found = people(), profile(bench)
    assert (found.population, found.rows, found.events) == (ROWS, ROWS, ())
    shares = real["city"].value_counts(normalize=True)
    weights = dict(zip(found["city"].values, found["city"].weights, strict=True))
    assert weights == pytest.approx(shares.to_dict(), abs=1e-12)
    assert found["score"].null_rate == real["score"].isna().mean()
    assert not (bench.store / "releasable/people" / profile_cache.PROFILE).exists()


def test_the_marginals_are_the_rows_own_counts(done):
    from dp_synth_pipeline.model.marginals import storage

    bench, _, _ = done
    measured = storage.load(next(bench.store.rglob("marginals.safetensors")))
    assert len(measured.layout.cliques) == 15
    assert (measured.counts >= 0).all()
    assert all(cells.sum() == ROWS for _, cells in measured.layout.blocks(measured.counts))
    assert 1 < measured.scale < 10, "raking trusts them no further than a sample of so many rows"


def test_the_published_table_is_near_the_source(done):
    bench, _, _ = done
    real = people()
    drawn = pq.read_table(bench.store / "releasable/people/synthetic.parquet").to_pandas()
    assert len(drawn) == ROWS
    for city, share in real["city"].value_counts(normalize=True).items():
        assert abs((drawn["city"] == city).mean() - share) < 0.07
    assert abs(np.median(drawn["income"]) - np.median(real["income"])) < 4


def test_card_report_metadata_tags_and_generator_say_that_there_is_no_guarantee(done):
    bench, result, _ = done
    releasable = bench.store / "releasable/people"
    card = json.loads((releasable / "release_card.json").read_text())
    assert (card["guarantee"], card["epsilon"], card["delta"], card["account"]) == ("none", None, None, "")
    assert (card["public_by"], card["public_why"], card["mechanisms"]) == ("Ana", "open data", [])
    assert card["derived"]["meaning"] == TOLD
    page = (releasable / "release_card.html").read_text()
    assert "NO PRIVACY GUARANTEE" in page
    assert TOLD[1:] in page
    assert "ε" not in page
    assert TOLD[1:] in (bench.store / "restricted/people/quality_report.html").read_text()
    assert json.loads((releasable / "generator/generator.json").read_text())["facts"]["guarantee"] == "none"
    facts = {e.asset_key.path[-1]: e.materialization.metadata for e in result.get_asset_materialization_events()}
    for name in LINKS - {"checks", "completed", "quality_report"}:
        assert facts[name]["guarantee"].value == TOLD, name
        assert "epsilon" not in facts[name], name
    for changes, tag in ((PUBLIC, "none"), ({"tags": {"dp_synth/guarantee": "none"}}, "dp")):
        definitions = bench.definitions(**changes)
        assert definitions.resolve_job_def("people_refresh").tags["dp_synth/guarantee"] == tag
        links = [s for s in definitions.resolve_all_asset_specs() if s.key.path[-1] != "source"]
        assert {s.tags["dp_synth/guarantee"] for s in links} == {tag}


def test_who_why_when_from_where_and_by_which_code_is_on_record_beside_the_release(done):
    bench, result, _ = done
    (record,) = records(bench)
    assert (record.by, record.why, record.state, record.run_id) == ("Ana", "open data", "settled", result.run_id)
    assert record.source == str(bench.folder / "people.parquet")
    assert record.code_version == bench.settings(**PUBLIC).code_version()
    assert record.fingerprint is not None
    assert record.started_at < record.ended_at
    assert record.ledger_head == bench.ledger.head()


def test_training_and_drawing_again_is_free_and_keeps_its_mark(done):
    bench, _, before = done
    for link in ("generator", "synthetic", "published", "release_card"):
        result = rerun(bench, link, **PUBLIC)
        assert result.success, failure(result)
    assert bench.ledger.head() == before[0]
    assert len(records(bench)) == 1


@pytest.mark.parametrize("link", ["profile", "marginals", "generator", "synthetic", "published", "release_card"])
def test_what_was_made_without_a_guarantee_never_goes_on_under_an_account(done, link):
    bench, _, before = done
    drawn = bench.store / "releasable/people/synthetic.parquet"
    stamp = drawn.stat().st_mtime_ns
    assert "no release 'unprotected-" in refused(rerun(bench, link))
    assert bench.ledger.head() == before[0]
    assert drawn.stat().st_mtime_ns == stamp


def test_a_table_that_an_account_protects_is_refused_before_it_is_read(bench):
    assert bench.refresh(epsilon=1.0).success
    head = bench.ledger.head()
    (bench.folder / "people.parquet").unlink()
    told = refused(bench.refresh(**PUBLIC))
    assert "was released under account people: it is protected" in told
    assert bench.ledger.head() == head
    assert records(bench) == []
    for link in ("profile", "marginals", "generator", "synthetic", "published", "release_card"):
        assert "not read under privacy: none" in refused(rerun(bench, link, **PUBLIC))


def test_a_table_whose_schema_an_account_paid_for_is_refused(bench):
    schema_inference.infer(bench.ledger, Store(bench.store), bench.settings(epsilon=0.5))
    assert "it is protected" in refused(bench.refresh(**PUBLIC))


def test_whoever_declares_content_public_is_not_told_that_an_account_protects_it_but_a_review_is(bench):
    release = bench.ledger.reserve(
        "people", key="k", epsilon=1.0, delta=1e-5, table="other", run_id="r", code_version="c"
    )
    other = bench.settings(table="other")
    read = Release(other, LedgerProtection(other, bench.ledger), Store(bench.store), RunState(release.id))
    read.run(stages.Ingestion())
    head = bench.ledger.head()
    result = bench.refresh(**PUBLIC)
    assert result.success, failure(result)
    (record,) = records(bench)
    assert record.state == "settled"
    assert bench.ledger.head() == head
    told = governance.facts(bench.ledger, Store(bench.store))
    (match,) = next(s["same_content"] for s in told["sources"])
    assert (match["accounts"], match["without_guarantee"]) == (["people"], ["people"])
    assert match["releases"] == [release.id, record.id]


def test_a_protected_release_of_a_table_that_was_given_away_says_so(bench):
    assert bench.refresh(**PUBLIC).success
    result = bench.refresh(epsilon=1.0)
    assert result.success, failure(result)
    card = json.loads((bench.store / "releasable/people/release_card.json").read_text())
    assert (card["guarantee"], card["epsilon"] <= 1.0) == ("dp", True)
    assert any("without a privacy guarantee" in limit for limit in card["limits"])
    profile = next(e for e in bench.ledger.entries() if e.mechanism == "profile")
    assert profile.events[0].noise_multiplier > 1, "the exact counts of the unprotected refresh are not reused"


def test_under_dp_every_count_is_noised_and_training_is_private(bench, monkeypatch):
    scales, epsilons = [], []
    histograms, count = mechanisms.noisy_histograms, mechanisms.noisy_count
    monkeypatch.setattr(
        mechanisms, "noisy_histograms", lambda h, *, scale, **k: scales.append(scale) or histograms(h, scale=scale, **k)
    )
    monkeypatch.setattr(
        mechanisms, "noisy_count", lambda n, *, epsilon, **k: epsilons.append(epsilon) or count(n, epsilon=epsilon, **k)
    )
    for name in ("profile", "marginals", "training"):
        monkeypatch.setattr(no_protection.Exact, name, _never)
    monkeypatch.setattr(training, "train_public", _never)
    result = bench.refresh()
    assert result.success, failure(result)
    assert len(scales) > 10
    assert min(scales) > 1
    assert len(epsilons) == 1
    assert epsilons[0] < 1


def test_without_privacy_training_is_never_the_private_one(bench, monkeypatch):
    monkeypatch.setattr(training, "train", _never)
    result = bench.refresh(**PUBLIC)
    assert result.success, failure(result)


def _never(*args, **kwargs):
    raise AssertionError


def test_no_release_of_an_account_gets_a_plan_without_noise(bench):
    release = bench.ledger.reserve(
        "people", key="k", epsilon=1.0, delta=1e-5, table="people", run_id="r", code_version="c"
    )
    with pytest.raises(ReleaseStateError, match="an account protects"):
        no_protection.Exact(bench.settings(), release)
    protection = no_protection.NoProtection(bench.settings(**PUBLIC), bench.ledger, Store(bench.store))
    with pytest.raises(ReleaseStateError, match="not read under privacy: none"):
        protection.allocation(release.id)


def test_a_table_under_dp_is_paid_for_by_the_ledger_and_by_nothing_else(bench):
    protection = no_protection.protection_of(bench.settings(), bench.ledger, Store(bench.store))
    assert isinstance(protection, LedgerProtection)
    assert protection.guaranteed
    with pytest.raises(InvalidInput, match="under privacy: dp"):
        no_protection.NoProtection(bench.settings(), bench.ledger, Store(bench.store))


def test_noise_that_is_none_never_moves_a_count():
    counts = np.arange(20_000)
    free = Unmetered()
    (found,), _ = mechanisms.noisy_histograms([counts], scale=2 * no_protection.NO_NOISE, sensitivity=1, odometer=free)
    assert (found == counts).all()
    assert {mechanisms.noisy_count(7, epsilon=1 / no_protection.NO_NOISE, odometer=free)[0] for _ in range(1000)} == {7}


@pytest.mark.parametrize("method", ["autoregressive", "marginals"])
def test_every_method_runs_without_privacy(bench, method):
    result = bench.refresh(**PUBLIC, training={"method": method, "max_epochs": 1})
    assert result.success, failure(result)


def test_a_second_refresh_starts_warm_and_replaces_the_snapshot_of_the_first(bench, monkeypatch):
    from dp_synth_pipeline.model.autoregressive import initialization

    seen, begin = [], initialization.begin
    monkeypatch.setattr(
        initialization,
        "begin",
        lambda *a, previous=None, **m: seen.append(previous) or begin(*a, previous=previous, **m),
    )
    for _ in range(2):
        assert bench.refresh(**PUBLIC, training={"start": "warm_start", "max_epochs": 1}).success
    assert [s is None for s in seen] == [True, False]
    kept = [f.name for f in (bench.store / "restricted/people").iterdir() if f.name.startswith("unprotected")]
    assert len(records(bench)) == 2
    assert len(kept) == 1


def test_a_source_that_cannot_be_used_is_voided_on_record(bench):
    pd.DataFrame({"a": [1]}).to_parquet(bench.folder / "people.parquet")
    assert not bench.refresh(**PUBLIC, columns={}).success
    assert [r.state for r in records(bench)] == ["voided"]


REFUSED = {
    "no declaration": ({"public": None}, "needs a person who declares the data public"),
    "no reason": ({"public": {"why": " ", "by": "Ana"}}, "the reason"),
    "no name": ({"public": {"why": "open", "by": ""}}, "who declared"),
    "an account": ({"account": "people"}, "account: with privacy: none nothing is charged"),
    "an epsilon": ({"epsilon": 1.0}, "epsilon: with privacy: none"),
    "a delta": ({"delta": 1e-5}, "delta: with privacy: none"),
    "a plan": ({"plan": "weekly"}, "plan: with privacy: none"),
    "a noise": ({"training": {"noise_multiplier": 1.0}}, "noise_multiplier: with privacy: none"),
    "looks": ({"training": {"looks": 3}}, "looks: with privacy: none"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_settings_that_contradict_it_are_refused_by_name(bench, case):
    changes, told = REFUSED[case]
    with pytest.raises(ValidationError, match=told):
        bench.settings(**{**PUBLIC, **changes})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"account": None}, "account: it is missing.*dp-synth ledger open.*privacy: none"),
        ({"epsilon": None}, "epsilon: it is missing"),
        ({"public": {"why": "open", "by": "Ana"}}, "goes with privacy: none"),
        ({"privacy": "off"}, "'dp' or 'none'"),
    ],
)
def test_a_guarantee_still_needs_an_account_and_an_epsilon(bench, changes, told):
    with pytest.raises(ValidationError, match=told):
        bench.settings(**changes)


def test_the_reason_may_be_written_better_without_another_code_version(bench):
    better = {**PUBLIC, "public": {"why": "CC BY 4.0", "by": "Ana"}}
    assert bench.settings(**better).code_version() == bench.settings(**PUBLIC).code_version()
    assert bench.settings().code_version() != bench.settings(**PUBLIC).code_version()


def test_the_command_line_says_it_plainly_and_opens_no_account(shell):
    write(shell.folder / "t.csv", "age,g,x", *GOOD)
    args = ("synthesize", "t.csv", "--out", "o.parquet", "--purpose", "testing", "--no-privacy", "--why", "open data")
    done = shell(*args, "--by", "Ana", "--json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert (facts["guarantee"], facts["epsilon"], facts["account"], facts["entries"]) == (TOLD, None, None, [])
    assert shell.ledger().accounts() == []
    shown = shell(*args, "--rows", 5)
    assert shown.code == 0, shown.err
    assert "no privacy guarantee: declared public by" in shown.text
    assert "% used" not in shown.text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "--epsilon is missing"),
        (("--no-privacy",), "--why REASON"),
        (("--why", "open", "--epsilon", 1), "go with --no-privacy"),
        (("--no-privacy", "--why", "open", "--epsilon", 1), "epsilon: with privacy: none"),
        (("--no-privacy", "--why", "open", "--account", "a"), "account: with privacy: none"),
        (("--no-privacy", "--why", "open", "--delta", 1e-5), "delta: with privacy: none"),
        (("--no-privacy", "--why", "open", "--open-account"), "--open-account"),
    ],
)
def test_options_that_contradict_each_other_are_refused_before_anything_is_read(shell, options, told):
    write(shell.folder / "t.csv", "age,g,x", *GOOD)
    done = shell("synthesize", "t.csv", "--out", "o.parquet", *options)
    assert (done.code, told in done.text) == (2, True), done.text
    assert not (shell.folder / "home").exists()
