from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Required, get_origin, get_type_hints

import pytest

from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.ledger.terms import (
    AccountKeywords,
    AccountTerms,
    BudgetKeywords,
    BudgetRequest,
    PlanKeywords,
    PlanTerms,
)


@pytest.mark.parametrize(
    ("value", "keywords"),
    [(AccountTerms, AccountKeywords), (PlanTerms, PlanKeywords), (BudgetRequest, BudgetKeywords)],
    ids=lambda c: c.__name__,
)
def test_the_keywords_of_a_request_are_the_fields_of_its_value(value: type, keywords: type) -> None:
    hints = get_type_hints(keywords, include_extras=True)
    assert {f.name for f in fields(value)} == set(hints)
    required = {name for name, hint in hints.items() if get_origin(hint) is Required}
    assert {f.name for f in fields(value) if f.default is MISSING} == required


def test_a_keyword_that_is_missing_or_unknown_is_named_and_nothing_is_opened(ledger: Ledger) -> None:
    with pytest.raises(TypeError, match="'delta'"):
        ledger.open_account("new", epsilon=1.0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'units'"):
        ledger.open_account("new", epsilon=1.0, delta=1e-5, units="row")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'run_id'"):
        ledger.reserve("f", key="k", table="t", code_version="v")  # type: ignore[call-arg]
    assert [a.name for a in ledger.accounts()] == ["f", "p"]
