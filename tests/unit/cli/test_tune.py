"""`dp-synth tune` tries what it is asked, compares like with like, and prints nothing that chance alone prefers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dp_synth_pipeline.cli import tune
from dp_synth_pipeline.errors import AuditFailed, Diverged, InvalidInput, TrainingError
from dp_synth_pipeline.synthesizer import Synthesizer


def test_every_combination_is_tried_after_the_defaults() -> None:
    assert tune.grid(["training.max_epochs=10,30", "training.rake=true,false"]) == [
        {},
        *({"max_epochs": epochs, "rake": rake} for epochs in (10, 30) for rake in (True, False)),
    ]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("training.epochs=10", r"^--try training\.epochs: there is no such setting\. Did you mean max_epochs\?"),
        ("training.batch_share=0.1,0", "--try training: batch_share must be finite and above 0"),
        ("training.early_stopping=1", "no epsilon would cover"),
        ("max_epochs=10", "expected KEY=VALUE,VALUE, such as training.max_epochs=10,30"),
        ("epsilon=10", "expected KEY=VALUE"),
        ("training.looks=[", "its value is no YAML"),
    ],
)
def test_what_cannot_be_tried_is_refused_by_its_key(asked: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        tune.grid([asked])


@pytest.mark.parametrize("epsilon", [1.999999940583249, 2.0])
def test_a_trial_is_paid_for_at_whatever_epsilon_a_release_came_to(epsilon: float) -> None:
    rows = pd.DataFrame({"a": [i % 7 for i in range(500)], "b": list("xy") * 250})
    found = tune._fitted(rows, rows.head(40), {"max_epochs": 1, "method": "marginals"}, epsilon)
    assert found is not None
    assert np.isfinite(found).all()


def trials(*likelihoods: list[float] | None) -> list[tune.Trial]:
    made = [None if some is None else np.array(some) for some in likelihoods]
    return [tune.Trial({"max_epochs": i} if i else {}, some) for i, some in enumerate(made)]


def test_trials_are_compared_over_the_rows_that_all_of_them_can_draw() -> None:
    found = tune.scores(trials([-3.0, -np.inf, -1.0], [-2.0, -9.0, -np.inf], None))
    assert found == [3.0, 2.0, None]
    assert tune.scores(trials([-np.inf, -1.0], [-1.0, -np.inf])) == [None, None]


def test_a_trial_that_draws_no_held_out_row_leaves_the_others_compared(capsys: pytest.CaptureFixture[str]) -> None:
    lost = trials([-np.inf, -np.inf], [-1.0, -2.0], None)
    assert tune.scores(lost) == [None, 1.5, None]
    tune._tell(lost)
    said = capsys.readouterr().err
    assert "draws no such row" in said
    assert said.count("diverged") == 1


def test_the_best_settings_are_printed_and_nothing_where_chance_explains_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tune._tell(trials([-3.0, -3.0], [-2.9, -2.9], None))
    said = capsys.readouterr()
    assert said.out == "training:\n  max_epochs: 1\n"
    assert "diverged" in said.err
    tune._tell(trials([-3.0, -3.0], [-2.98, -2.98]))
    said = capsys.readouterr()
    assert said.out == ""
    assert "Leave them" in said.err
    with pytest.raises(TrainingError, match="no trial ended"):
        tune._tell(trials(None, None))


def test_only_a_training_that_diverged_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"a": range(9)})

    def ends_by(error: TrainingError) -> None:
        def fit(*_: object) -> None:
            raise error

        monkeypatch.setattr(Synthesizer, "fit", fit)

    ends_by(Diverged("its weights are not finite"))
    assert tune._fitted(frame, frame, {}, 1.0) is None
    ends_by(AuditFailed(["noise"], "3f9c2b71d004", settled=True))
    with pytest.raises(AuditFailed):
        tune._fitted(frame, frame, {}, 1.0)
