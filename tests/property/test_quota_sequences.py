"""Whatever is asked in whatever order, by whomever, no requester and no purpose takes more of an account than its quota."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from fractions import Fraction
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dp_synth_pipeline.errors import DpSynthError
from dp_synth_pipeline.ledger import Ledger, Release
from dp_synth_pipeline.privacy.events import Gaussian

QUOTAS = {("requester", "ana"): "0.3", ("requester", "*"): "0.2", ("purpose", "testing"): "0.25", ("purpose", ""): "1"}
BLOCKS = [(), ("jan",), ("feb",), ("jan", "feb")]
WHO, PURPOSES = st.sampled_from(["ana", "Bob", "cem"]), st.sampled_from(["testing", "Testing ", ""])


class Sequences(RuleBasedStateMachine):
    """Requests of three people for two purposes, over an account under a filter and one of blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.ledger = Ledger.open(f"{self.folder.name}/ledger.db")
        quotas = [f"{by}={name}:{share}" for (by, name), share in QUOTAS.items() if name]
        terms: dict[str, Any] = {"delta": 1e-5, "quotas": quotas}
        self.ledger.open_account("f", epsilon=3.0, **terms)
        self.ledger.open_account("b", epsilon=1.0, rule="plan", blocks=["jan", "feb"], unit_in_one_block=True, **terms)
        self.releases: list[Release] = []
        self.refused = 0

    @rule(
        account=st.sampled_from(["f", "f", "b"]),
        who=WHO,
        purpose=PURPOSES,
        epsilon=st.sampled_from([0.05, 0.1, 0.3, 0.9]),
        blocks=st.sampled_from(BLOCKS),
    )
    def reserve(self, account: str, who: str, purpose: str, epsilon: float, blocks: tuple[str, ...]) -> None:
        asked = {"epsilon": epsilon, "delta": 1e-7, "purpose": purpose, "blocks": blocks if account == "b" else ()}
        with patch.dict(os.environ, {"LOGNAME": who}):
            fits = self.ledger.capacity(account, **asked)
            try:
                names = {"table": "t", "run_id": "r", "code_version": "v", "key": f"k{len(self.releases)}"}
                self.releases.append(self.ledger.reserve(account, **names, **asked))
            except DpSynthError:
                self.refused += 1
                assert not fits
            else:
                assert fits
                assert self.ledger.capacity(account, **asked) == fits - 1

    @precondition(lambda self: self.releases)
    @rule(data=st.data(), runs=st.booleans())
    def end(self, data: st.DataObject, runs: bool) -> None:
        release = data.draw(st.sampled_from(self.releases[-4:]))
        with suppress(DpSynthError):
            if runs:
                self.ledger.start(release.id, "marginals", (Gaussian(60.0),))
                self.ledger.settle(release.id)
            else:
                self.ledger.void(release.id, "nothing was read")

    @rule(who=WHO, why=st.sampled_from(["testing", "OpenDP query"]), noise=st.sampled_from([5.0, 10.0]))
    def charge_by_hand(self, who: str, why: str, noise: float) -> None:
        with suppress(DpSynthError):
            self.ledger.charge_by_hand("f", (Gaussian(noise),), why=why, who=who)

    @rule(who=WHO, number=st.integers(0, 3))
    def declare_plan(self, who: str, number: int) -> None:
        with suppress(DpSynthError):
            self.ledger.declare_plan("f", name=f"p{number}", events=(Gaussian(9.0),), times=2, why="testing", who=who)

    @rule(account=st.sampled_from(["f", "b"]))
    def raise_account(self, account: str) -> None:
        more = self.ledger.account(account).epsilon + 0.1
        self.ledger.raise_account(account, epsilon=more, why="more", who="A. Officer")

    def taken(self, account: str, by: str, name: str) -> tuple[int, int]:
        """Add up, one by one, what one requester or purpose took where they took most."""
        rows: dict[str, tuple[int, int]] = {"": (0, 0), "jan": (0, 0), "feb": (0, 0)}
        found = [
            (r.who if by == "requester" else r.purpose, r.blocks,
             (r.reserved_cost, r.reserved_delta) if r.charged_cost is None else (r.charged_cost, r.charged_delta or 0))
            for r in self.ledger.releases(account)
        ]  # fmt: skip
        plans = self.ledger.plans(account)
        found += [(p.who if by == "requester" else p.why, (), (p.cost, p.cost_delta)) for p in plans]
        for whose, blocks, units in found:
            if whose.strip().lower() == name:
                for block in blocks or ("",):
                    rows[block] = rows[block][0] + units[0], rows[block][1] + units[1]
        cost, delta = (rows[""][i] + max(rows["jan"][i], rows["feb"][i]) for i in (0, 1))
        return cost, delta

    @invariant()
    def nobody_takes_more_than_their_quota(self) -> None:
        for account in self.ledger.accounts():
            for by, name in [("requester", n) for n in ("ana", "bob", "cem")] + [("purpose", "testing")]:
                share = Fraction(QUOTAS.get((by, name)) or QUOTAS[by, "*"])
                cost, delta = self.taken(account.name, by, name)
                assert cost <= share * account.cost_limit
                assert delta <= share * account.delta_limit

    def teardown(self) -> None:
        assert self.ledger.verify().releases == len(self.ledger.releases())
        self.folder.cleanup()


TestSequences = Sequences.TestCase
TestSequences.settings = settings(
    max_examples=10, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
