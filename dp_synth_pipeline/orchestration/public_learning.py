"""Learning from a source that a person declared public: without clipping, noise or charge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_synth_pipeline.model.dpsgd.plan import learning_rate
from dp_synth_pipeline.model.dpsgd.work import Hooks, Training
from dp_synth_pipeline.orchestration import unprotected
from dp_synth_pipeline.orchestration.assets.encoded import encoded
from dp_synth_pipeline.orchestration.learning import Learner, Report, model_in
from dp_synth_pipeline.orchestration.unprotected import Book, Unprotected

if TYPE_CHECKING:
    from dp_synth_pipeline.model.base import GenerativeModel


@dataclass
class PublicLearning(Learner):
    """Learning from rows that a person declared public: without clipping, noise or charge."""

    book: Book

    def _noise(self) -> float:
        return 0.0

    def _protected_by(self, digest: str) -> list[str]:
        return self.book.same_source(digest)

    def begin_figures(self) -> None:
        """There are none: nothing is charged, and the restricted report has them all."""

    def settle(self, ran: Sequence[dict[str, Any]] | None = None) -> Unprotected:
        """Put on record that the generator is released."""
        return self.book.settle(self.refresh.release)

    def _previous(self, folder: Path) -> GenerativeModel | None:
        return model_in(folder, self.book.settled())

    def _train(self, model: GenerativeModel, report: Report) -> dict[str, Any]:
        release = self.book.release(self.refresh.release)
        plan = unprotected.training_plan(release, self.profile.population, self.spec)
        codes, units = encoded(self.refresh.path("completed"), self.codec)
        model.fit_public(Training(codes, plan, self.spec, units=units, workers=self.workers), Hooks(progress=report))
        rate = learning_rate(plan, self.spec)
        return {"steps": plan.steps, "sample_rate": plan.sample_rate, "learning_rate": rate}
