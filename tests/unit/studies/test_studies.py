"""Each study runs on a tiny grid, and its page holds what its figures say."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from torch import nn

from benchmarks.studies import attributes, cost, grid, hyperparameters, membership, pages, shadows
from benchmarks.studies import network_alone as alone
from benchmarks.studies.__main__ import FIGURES, STUDIES
from dp_synth_pipeline.demo.clinic import clinic_visits
from dp_synth_pipeline.model.dpsgd.optimization import inner_optimizer
from tests.lanes import by_night
from tests.light import light  # noqa: F401  releases of the study of attributes

pytestmark = pytest.mark.slow

LONG = {"attributes", "released", "shadows", "size"}
"""Studies of which even a tiny grid takes long."""

SCORES = {
    "accuracy": {"overall": 0.9, "overall_max": 0.98}, "similarity": {"discriminator_auc_training_synthetic": 0.6},
}  # fmt: skip
"""What mostlyai-qa, which these tests do not have, would say."""

TINY: dict[str, dict[str, Any]] = {
    "hyperparameters": {
        "ROWS": 512, "HELD_OUT": 200, "HIDDEN": 2, "EPSILONS": {"fair": (3.0,)}, "BATCHES": (128,),
        "EPOCHS": (1, 2), "RATES": (0.1, 1.0), "NORMS": (0.1, 1.0, 10.0, 100.0),
    },
    "noise_and_norm": {"ROWS": 512, "HELD_OUT": 200, "EPOCHS": 1, "REPEATS": 1, "NOISES": (0.5, 32.0), "NORMS": (1.0,)},
    "cost": {
        "ROWS": 512, "HELD_OUT": 200, "EPOCHS": 1, "REPEATS": 1, "EPSILONS": (1.0, 2.51), "PLAIN_EPOCHS": (1, 2),
    },
    "shoe": {
        "ROWS": 512, "HELD_OUT": 200, "EPOCHS": 1, "UNITS": (2, 4), "OPTIMIZERS": ("adam",),
        "REPEATS": {"capacity": 1, "activation": 2},
    },
    "activations": {"ROWS": 256, "HELD_OUT": 200, "EPOCHS": 1, "REPEATS": 1},
    "size": {
        "ROWS": {"rand": (300, 512), "many visits": (300, 512)}, "HELD_OUT": {"rand": 200, "many visits": 200},
        "EPOCHS": 2, "REPEATS": 1, "GROUPS": (1, 2, 32), "BATCH": 32,
    },
    "released": {
        "ROWS": 512, "HELD_OUT": 200, "EPOCHS": 1, "REPEATS": 1, "EPSILONS": (2.51,), "PLAIN_EPOCHS": (1, 2),
        "PYTHON": sys.executable, "theirs": lambda *_: SCORES,
    },
    "starts": {"ROWS": 256, "HELD_OUT": 200, "EPOCHS": 1, "REPEATS": 1, "EPSILONS": (2.51,)},
    "persons": {
        "ROWS": 512, "HELD_OUT": 200, "EPOCHS": 1, "REPEATS": 1, "EPSILONS": (2.51,), "PER_PERSON": (1, 4),
    },
    "membership": {
        "ROWS": 200, "NETWORKS": 4, "GUESSED": 20, "EPOCHS": 1, "MANY": 2, "REPEATS": 1, "EPSILONS": (2.51,),
    },
    "frozen": {"ROWS": 256, "HELD_OUT": 200, "EPOCHS": 1, "REPEATS": 1, "EPSILONS": (2.51,)},
    "adam": {"ROWS": 256, "HELD_OUT": 200, "EPOCHS": 1, "REPEATS": 1, "EPSILONS": (2.51,), "FACTORS": (0.3, 1.0)},
    "moments": {"ROWS": 256, "HELD_OUT": 200, "EPOCHS": 1, "REPEATS": 1, "EPSILONS": (2.51,), "STEPS": (1, 5)},
    "images": {"HELD_OUT": 1_600, "EPOCHS": 1, "REPEATS": 1, "EPSILONS": (8.0,), "RATES": (0.5,)},
    "attributes": {
        "ROWS": 300, "REPEATS": 1, "EPSILONS": (2.51,),
        "TRAINING": {attributes.DEFAULT: {"max_epochs": 1}, attributes.MANY: {"max_epochs": 1}},
    },
    "shadows": {
        "ROWS": 300, "RELEASES": 3, "REPEATS": 1, "EPSILONS": (8.0,),
        "TRAINING": {attributes.DEFAULT: {"max_epochs": 1}, attributes.MANY: {"max_epochs": 1}},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", by_night(STUDIES, LONG))
def test_a_tiny_grid_of_each_study_runs_and_is_shown(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(alone.TABLES, "many visits", clinic_visits)  # a few are enough here, and are simulated sooner
    study: ModuleType = STUDIES[name]
    for constant, value in TINY[name].items():
        monkeypatch.setattr(study, constant, value)
    path = tmp_path / f"{name}.csv"
    study.run(path)
    lines = grid.read(path)
    assert (lines["accuracy" if name == "released" else "loss"] > 0).all()
    assert all(table.startswith("| ") for table in study.tables(lines).values())
    for figure in study.charts(lines).values():
        assert len(figure.to_json()) > 500


@pytest.mark.parametrize("name", STUDIES)
def test_the_page_holds_what_the_figures_say(name: str) -> None:
    text = pages.PAGE.read_text(encoding="utf-8")
    tables = STUDIES[name].tables(grid.read(FIGURES / f"{name}.csv"))
    assert pages.current(text, tables) == text, f"write it anew: python -m benchmarks.studies --show {name}"
    assert {mark[1] for mark in pages.MARK.findall(text)} >= set(tables)


def test_the_page_says_what_a_network_that_knows_nothing_loses() -> None:
    lines = grid.read(FIGURES / "hyperparameters.csv")
    text = " ".join(pages.PAGE.read_text(encoding="utf-8").split())
    nothing = {table: float(some["nothing"].iloc[0]) for table, some in lines.groupby("table")}
    assert f"a loss of {nothing['rand']:.2f} on RAND and {nothing['fair']:.2f} on Fair" in text


def test_tables_of_another_study_stay_as_they_are() -> None:
    page = "<!-- from the study: one -->\n\nold\n\n<!-- end -->\n<!-- from the study: two -->\n\nkept\n\n<!-- end -->\n"
    assert pages.current(page, {"one": "new"}) == page.replace("old", "new")


def test_an_attack_finds_rows_that_networks_know_by_heart_and_nobody_where_they_learnt_nothing() -> None:
    rng = np.random.default_rng(0)
    member = rng.random((16, 500)) < 0.5
    hard = 5 + rng.normal(size=500)  # some rows are unlikely under any network, which says nothing of membership
    by_heart = membership.scored(hard - 3.0 * member + 0.5 * rng.normal(size=member.shape), member)
    nothing = membership.scored(hard + 0.5 * rng.normal(size=member.shape), member)
    assert membership.area(by_heart, member) > 0.99
    assert membership.at_false_alarms(by_heart, member) > 0.9
    assert abs(membership.area(nothing, member) - 0.5) < 0.03
    assert membership.at_false_alarms(nothing, member) < 0.03


def test_shadow_releases_find_who_is_in_a_table_that_is_published_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadows, "RELEASES", 8)
    monkeypatch.setattr(shadows, "ROWS", 600)
    itself = shadows.measure({"epsilon": float("inf"), "released": attributes.ITSELF})
    assert itself["near_auc"] > 0.9
    monkeypatch.setattr(shadows, "_drawn", lambda members, cell: alone.rand_hie().to_pandas().sample(300))
    nothing = shadows.measure({"epsilon": 1.0, "released": attributes.DEFAULT})
    assert abs(nothing["near_auc"] - 0.5) < 0.05
    assert nothing["near_found"] < 0.05


def test_what_an_attack_on_a_table_may_find_is_what_epsilon_and_delta_allow() -> None:
    assert shadows.allowed(0.0) == pytest.approx(0.01, abs=1e-4)
    assert shadows.allowed(1.0) == pytest.approx(0.0272, abs=1e-4)
    assert 0.999 < shadows.allowed(8.0) < 1
    assert shadows.allowed(float("inf")) == 1


def test_what_an_attack_may_find_is_that_of_its_training_and_everything_without_privacy() -> None:
    few, more = (membership.allows(epsilon, 1) for epsilon in (0.5, 8.0))
    assert few is not None
    assert more is not None
    assert 0.01 < few.true_positive(0.01) < more.true_positive(0.01) < 1
    assert membership.allows(float("inf"), 1) is None


def plain(losses: dict[int, float], private: float) -> pd.DataFrame:
    rows = [{"epsilon": float("inf"), "epochs": e, "hidden": 16, "loss": v, "seconds": 1.0} for e, v in losses.items()]
    return pd.DataFrame([*rows, {"epsilon": 2.51, "epochs": 30, "hidden": 16, "loss": private, "seconds": 1.0}])


@pytest.mark.parametrize(
    ("private", "epochs", "bound"), [(10.0, 2.0, False), (9.5, 2 * 2**0.5, False), (12.0, 1.0, True), (8.0, 4.0, True)]
)
def test_privacy_is_worth_the_epochs_that_reach_its_loss(private: float, epochs: float, bound: bool) -> None:
    found = cost.worth(plain({1: 11.0, 2: 10.0, 4: 9.0}, private), 2.51, 16)
    assert found == (pytest.approx(epochs), bound)


def test_sgd_moves_by_the_rate_of_the_cell_whatever_the_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(
        hyperparameters, "learn", lambda *rows, **_: asked.append(rows[-1]) or alone.Result(1, 2, 1, 1, 1, 1)
    )
    for norm in (0.1, 1.0, 10.0):
        hyperparameters.measure({"table": "fair", "epsilon": 3.0, "batch": 128, "epochs": 2, "rate": 0.3, "norm": norm})
    rates = [inner_optimizer(nn.Linear(1, 1), how).param_groups[0]["lr"] for how in asked]
    assert rates == pytest.approx([0.3, 0.3, 0.3])


LEVELS = np.array([0.01, 0.1, 1.0, 10.0, 100.0])


def test_the_slope_is_that_of_a_loss_by_product_and_of_one_by_rate() -> None:
    x = np.arange(5)
    product = (np.add.outer(x, x) - 4.0) ** 2 + np.zeros((3, 1, 1))
    rate = np.broadcast_to(((x - 2.0) ** 2)[:, None], (3, 5, 5))
    assert hyperparameters.slope(product, LEVELS, LEVELS) == pytest.approx((-1, -1, -1))
    assert hyperparameters.slope(rate, LEVELS, LEVELS) == pytest.approx((0, 0, 0))
    assert hyperparameters.explained(product) == pytest.approx(1)
    assert hyperparameters.explained(rate) < 0.6
    assert hyperparameters.by_product(product)[0] == pytest.approx((np.arange(9) - 4.0) ** 2)
    assert hyperparameters.tuned(product)[1] == pytest.approx(4)
