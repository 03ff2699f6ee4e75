"""The commands that the documentation shows for one file run in their order, on one account that a person opened."""

from __future__ import annotations

import shlex

import pytest

from tests.integration.conftest import people

FIRST_STEPS = """
dp-synth ledger open people --epsilon 6 --delta 1e-5
dp-synth synthesize people.csv --out synthetic.parquet --epsilon 2
dp-synth ledger show people
dp-synth schema show people.csv
dp-synth schema infer people.csv --epsilon 0.3 --out schema.yaml
dp-synth synthesize people.csv --out synthetic.parquet --epsilon 1.5 --schema schema.yaml
dp-synth profile show people
dp-synth purge people --older-than 7d
dp-synth ledger show people
dp-synth ledger can people --epsilon 1
dp-synth ledger forecast people --every '0 3 * * 1' --epsilon 0.5
dp-synth ledger plan people --times 3 --like RELEASE --why "monthly refresh"
dp-synth ledger raise people --epsilon 8 --why "ethics board, 12 March"
dp-synth ledger export people --format html --out statement.html
dp-synth ledger verify
"""
"""One account, from its opening to its statement; RELEASE is the start of an id that `ledger show` prints."""


@pytest.mark.slow
def test_the_commands_for_one_file_run_in_their_order_on_one_account(shell) -> None:
    rows = 5_000  # at epsilon 0.3 their number's noise has scale 167, so that 600 rows were counted as none once in 70 runs
    people(rows).drop(columns="person").to_csv(shell.folder / "people.csv", index=False)
    used = []
    for line in FIRST_STEPS.split("\n"):
        words = shlex.split(line)[1:]
        if not words:
            continue
        if "RELEASE" in words:
            words[words.index("RELEASE")] = shell.ledger().releases("people")[-1].id[:12]
        if words[0] == "synthesize":
            words += ["--purpose", "testing"]
        done = shell(*words)
        assert done.code == 0, f"{line}: {done.text}"
        used.append(shell.ledger().share("people").used)
    assert used[0] == 0
    assert 0 < used[1] < 1
    assert (shell.folder / "statement.html").exists()


def test_an_account_of_one_release_is_spent_by_it_and_says_so(shell) -> None:
    people(300).drop(columns="person").to_csv(shell.folder / "once.csv", index=False)
    first = ("synthesize", "once.csv", "--out", "o.parquet", "--epsilon", 2, "--open-account", "--purpose", "testing")
    done = shell(*first)
    assert done.code == 0, done.text
    assert "for this one release, which spends all of it" in done.text
    assert "100 % used; nothing fits any more" in done.text
    refused = shell("schema", "infer", "once.csv", "--epsilon", 0.3, "--out", "s.yaml")
    assert refused.code == 3
    assert "100 % of the account is used" in refused.err
    assert refused.err.splitlines()[-2].startswith("Account 'once' refuses")  # a sentence, and no class before it
