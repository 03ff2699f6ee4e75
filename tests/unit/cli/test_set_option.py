"""`--set KEY=VALUE` reaches every setting that has no option, and a wrong one is refused with the right key."""

from __future__ import annotations

from typing import Any

import pytest

from dp_synth_pipeline.cli.options import SetOptions, checked
from dp_synth_pipeline.errors import InvalidInput

ASKED = {"table": "t", "source": "t.csv", "account": "a", "epsilon": 1.0, "training": {"purpose": "testing"}}


def over(*assigned: str, replace: bool = False, facts: dict[str, Any] = ASKED) -> dict[str, Any]:
    return SetOptions(set_=list(assigned)).over(facts, replace=replace)


def test_what_is_set_stands_beside_what_options_say_with_the_type_that_it_has() -> None:
    training = checked(**over("training.max_epochs=10", "training.learning_rate=1e-3", "training.rake=false")).training
    assert (training.purpose, training.max_epochs, training.learning_rate, training.rake) == (
        "testing",
        10,
        0.001,
        False,
    )
    assert checked(**over("validation.rules=[a <= b]")).validation.rules == ["a <= b"]
    assert ASKED["training"] == {"purpose": "testing"}, "the options' own facts are left as they are"


@pytest.mark.parametrize(
    ("assigned", "told"),
    [
        ("training.epochs=3", r"^--set training\.epochs: there is no such setting\. Did you mean max_epochs\?"),
        ("trainin.looks=3", r"^--set trainin: there is no such setting\. Did you mean training\?"),
        ("rules=[a > 0]", r"^--set rules: there is no such setting\. Did you mean validation\.rules\?"),
        ("training.rows=3", r"^--set training\.rows: there is no such setting\. Did you mean rows\?"),
        ("training.max_epochs=many", r"^--set training\.max_epochs: .*integer"),
        ("training.batch_share=0", "training: batch_share must be finite and above 0"),
        ("epsilon=9", r"--set epsilon: the command has an option for it, --epsilon; use that"),
        ("training.purpose=testing", r"--set training\.purpose: .*--purpose"),
        ("training.max_epochs", "expected KEY=VALUE, such as training.max_epochs=10"),
        ("training.max_epochs=", "expected KEY=VALUE"),
        ("=3", "expected KEY=VALUE"),
        ("epsilon.x=3", "expected KEY=VALUE"),
        ("training.looks=[", "its value is no YAML"),
    ],
)
def test_what_cannot_be_set_is_refused_by_its_key(assigned: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        checked(**over(assigned))


def test_over_a_file_what_is_set_goes_first() -> None:
    assert over("training.purpose=analytics", "rows=5", replace=True)["training"] == {"purpose": "analytics"}
