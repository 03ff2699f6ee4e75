"""Defines how a generator learns: one flat namespace, whose defaults and ranges are those of `GeneratorSpec`."""

from __future__ import annotations

import math
import warnings
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd.spec import MAX_EPOCHS, Purpose
from dp_synth_pipeline.synthesis.section import Section, told

SEEDS = {"seed", "random_state", "noise_seed"}
_STOPS = "training: {looks: 6} asks up to six noisy, charged queries of the loss, which may end training early"
_KEEPS = "training: {averaging: 0.1} averages the weights of the last steps, free"
_FALLS = "the rate falls by a public schedule; training: {learning_rate: ...} says where it begins"

SELECTIONS = {
    **dict.fromkeys(("early_stopping", "early_stop", "patience"), _STOPS),
    **dict.fromkeys(("best_checkpoint", "keep_best"), _KEEPS),
    "reduce_on_plateau": _FALLS,
}
"""Settings that other trainers have and that would void the guarantee here, refused by name, and what does the same."""

FIRST = {"purpose", "max_epochs", "method", "start", "public"}
"""What stood under `training` itself when all else stood under its `settings`."""


def _knob(name: str, meaning: str, effect: str, source: str) -> Any:
    """Return the field of a setting of `GeneratorSpec`, which has its default and its range."""
    return Field(default=getattr(GeneratorSpec, name), description=meaning, json_schema_extra=told(effect, source))


MOST_TRIALS = 20
"""Expected trials of a study, at most: more leave none of them enough to learn from, and 45 trainings run already."""

DRAWN = ("learning_rate", "max_grad_norm", "averaging")
"""Settings that a study draws. They change neither what a training costs nor how long it takes, so that all trials are
runs of one mechanism, and time does not tell which was chosen."""


def _range(setting: str, scale: str) -> Any:
    """Return the field of a range that a study draws one setting from."""
    return Field(
        default=None,
        description=f"Least and largest `{setting}` of a trial, drawn at random, {scale}; `{setting}` itself without.",
        json_schema_extra=told(
            "A wide range wastes trials, and a narrow one has nothing to find.",
            "Papernot & Steinke 2022; `benchmarks/tuning.py`",
            f"two numbers, within the range of `{setting}`",
        ),
    )


class TuneSettings(Section):
    """A study: trainings on the real rows whose settings are drawn at random, of which the best is released."""

    trials: float = Field(
        default=4,
        ge=1,
        le=MOST_TRIALS,
        description="Trainings that compete, on average: their number is random, and secret.",
        json_schema_extra=told(
            "More trials leave each of them less ε and take longer: 17 trainings run for 4 trials, and 21 for 6.",
            "Papernot & Steinke 2022, Theorem 6; `benchmarks/tuning.py`",
        ),
    )
    learning_rate: list[float] | None = _range("learning_rate", "evenly on a logarithmic scale")
    max_grad_norm: list[float] | None = _range("max_grad_norm", "evenly on a logarithmic scale")
    averaging: list[float] | None = _range("averaging", "evenly")

    @property
    def space(self) -> dict[str, tuple[float, float]]:
        """The range of each setting that is drawn: public, and fixed before a row is read."""
        return {name: (found[0], found[1]) for name in DRAWN if (found := getattr(self, name)) is not None}

    def drawn(self, rng: np.random.Generator) -> dict[str, float]:
        """Return the settings of one trial, independent of every other and of all rows."""
        return {
            name: float(rng.uniform(low, high) if name == "averaging" else math.exp(rng.uniform(*np.log((low, high)))))
            for name, (low, high) in self.space.items()
        }

    @field_validator(*DRAWN)
    @classmethod
    def _ascending(cls, value: list[float] | None) -> list[float] | None:
        if value is not None and not (len(value) == 2 and value[0] < value[1]):
            raise InvalidInput(f"expected two numbers, the smaller one first, got {value}.")
        return value

    @model_validator(mode="after")
    def _something_to_find(self) -> TuneSettings:
        if not self.space:
            raise InvalidInput(
                f"expected the range of a setting to draw, such as learning_rate: [0.003, 0.03]; one of {', '.join(DRAWN)}."
            )
        for ends in zip(*self.space.values(), strict=True):
            GeneratorSpec(**dict(zip(self.space, ends, strict=True)))
        return self


class TrainingSettings(Section):
    """How the generator learns; every number is public."""

    purpose: Literal["testing", "analytics", "machine_learning"] = Field(
        default="analytics",
        description="What the rows are for; it sets how long training may last.",
        json_schema_extra=told(
            "15, 30 or 60 passes; on Adult, quality moved by chance alone from 10 to 60.",
            "Syngen's ranges; benchmarks, epochs",
        ),
    )
    max_epochs: int | None = Field(
        default=None,
        ge=1,
        description="Expected passes over the units; overrides the purpose's 15, 30 or 60.",
        json_schema_extra=told(
            "Training's time is linear in it. On Adult 10 do as well as 30 in a third of the time, and 60 win nothing: the "
            "rate follows the steps, and the noise the budget.",
            "Abadi et al. 2016; benchmarks, epochs",
        ),
    )
    method: Literal["hybrid", "autoregressive", "marginals"] = Field(
        default="hybrid",
        description="Noisy marginals and a network trained on rows, or one of the two alone.",
        json_schema_extra=told(
            "On Adult the network alone misses the marginals (0.016 against 0.004 in 1-way distance); marginals alone lose "
            "0.05 in the discriminator and 0.006 in TSTR, and take no training.",
            "benchmarks, the parts",
        ),
    )
    start: Literal["marginals", "random", "mean_var", "warm_start", "public"] = Field(
        default="marginals",
        description="Where the weights start: taught by the noisy marginals, at random, from layer moments, from the "
        "table's last release, or from a public table.",
        json_schema_extra=told(
            "On Adult a random start loses 0.04 in the discriminator and 0.004 in TSTR; `mean_var` loses a third of that; "
            "`warm_start` adds the last release to what the table's ε is of.",
            "Papernot et al. 2020, section 4; benchmarks, the parts",
        ),
    )
    public: str | None = Field(
        default=None,
        description="With start: public: a table like the source, declared public.",
        json_schema_extra=told(
            "Free, and only as good as the table is alike.", "benchmarks, what each choice is worth", "path or address"
        ),
    )
    learning_rate: float | None = _knob(
        "learning_rate",
        "Step size at `max_grad_norm` 1; by default a rule of steps and noise, 0.012 for Adam and 0.75 for SGD on Adult.",
        "A third of it, and three times it, lost 0.003 in TSTR and 0.01 to 0.02 in the discriminator. The first to lower "
        "when a training diverges.",
        "Morsbach et al. 2024 (arXiv 2411.02051); benchmarks, rate x norm",
    )
    optimizer: Literal["adam", "sgd"] = _knob(
        "optimizer",
        "What takes the noisy gradients; `sgd` has momentum 0.9.",
        "SGD with a rate of 1 does as well as Adam on Adult; with a thirtieth of it, it loses 0.06 in the discriminator.",
        "benchmarks, optimizer",
    )
    max_grad_norm: float = _knob(
        "max_grad_norm",
        "L2 bound of one unit's gradient, the clipping norm.",
        "The noise of a step is this times `noise_multiplier`. Adam divides it out; for SGD the rate is divided by it.",
        "Abadi et al. 2016; benchmarks, the clipping norm",
    )
    noise_multiplier: float | None = _knob(
        "noise_multiplier",
        "Noise of a step in clipping norms; by default the least with which all steps fit into ε.",
        "Given, ε limits the steps instead: at 0.5, a cap of ε = 16 ended training after 73 of 644 steps.",
        "Abadi et al. 2016; benchmarks, the sweep",
    )
    batch_share: float = _knob(
        "batch_share",
        "Expected part of the units in a step, before it is rounded to a power of two.",
        "More units drown less in noise and make fewer steps. On Adult 1/32 to 1/4 differ by little more than chance, and "
        "smaller ones cost time.",
        "benchmarks, batch",
    )
    max_batch: int = _knob(
        "max_batch",
        "Most units expected in a step.",
        "Bounds memory and the time of a step; with the default share it sets the batch from 65,536 units on.",
        "`model.dpsgd.plan`",
    )
    microbatch: int = _knob(
        "microbatch",
        "Rows whose mean gradient is clipped as one; above 1 for rows as units only.",
        "More than 1 doubles the sensitivity, and so the noise: from 16 on, training spoils what marginals alone give.",
        "Syngen's setting; benchmarks, micro-batches",
    )
    averaging: float = _knob(
        "averaging",
        "Part of the last steps that the released weights average over; free.",
        "None, a tenth and 0.3 differ by chance on Adult.",
        "benchmarks, averaging",
    )
    looks: int = _knob(
        "looks",
        "Charged queries of the loss that may end training early, at most; 0 for none.",
        "On Adult 6 gave back 0.23 of ε for nothing lost; 12 gave back 0.49 for 0.006 of TSTR.",
        "benchmarks, looks",
    )
    look_share: float = _knob(
        "look_share",
        "Part of training's squared signal to noise that all looks take.",
        "More makes looks clearer and steps noisier; not swept.",
        "`model.dpsgd.plan`",
    )
    marginals_share: float | None = _knob(
        "marginals_share",
        "Part of what the profile leaves that noisy marginals take, in squared signal to noise; by default a rule.",
        "On Adult the rule says 24 %; 12 to 60 % differ by chance, and 5 % lose 0.002 in 2-way distance.",
        "benchmarks, split",
    )
    triples: int | None = _knob(
        "triples",
        "Triples of columns measured beside all pairs, at most; by default a rule.",
        "The rule says 10 on Adult; 0 to 30 differ by little more than chance there.",
        "benchmarks, triples",
    )
    rake: bool = _knob(
        "rake",
        "Whether draws are weighted towards the noisy marginals; free.",
        "Off, 2-way distance doubles and 1-way distance is four times as large on Adult.",
        "benchmarks, raking",
    )
    hidden: int | None = _knob(
        "hidden",
        "Hidden units of a column's network; by default a rule: fewer under more noise.",
        "8 to 64 differ by chance on Adult; 32 are better than 16 on other tables; training's seconds double from 16 to 64.",
        "Papernot et al. 2020, section 3.1; benchmarks, capacity",
    )
    embedding: int = _knob(
        "embedding",
        "Numbers that describe one earlier value to the columns after it.",
        "Memory and time grow with it; not swept.",
        "`model.autoregressive.network`",
    )
    activation: Literal["tanh", "relu"] = _knob(
        "activation",
        "What a hidden unit computes; tanh is bounded, so gradients stay under the clip.",
        "`relu` loses 0.01 in the discriminator on Adult, and nothing in TSTR.",
        "Papernot et al. 2020, section 3.2; benchmarks, activation",
    )
    train_only: Literal["heads"] | None = _knob(
        "train_only",
        "With start: public or warm_start: `heads` trains the last layer of each column alone, and keeps all before it as "
        "it was learnt there. A first warm_start keeps what the marginals taught.",
        "Upon public rows of another kind, the network alone loses 1.4 nats at ε = 0.1 and 0.2 at 8; from 0.25 to 2.51 it "
        "wins or loses at most 0.12.",
        "Papernot et al. 2020; studies, frozen layers",
    )

    tune: TuneSettings | None = Field(
        default=None,
        description="Train several times with settings drawn at random, and release the best, all of it charged as one "
        "mechanism.",
        json_schema_extra=told(
            "One of 4 trials has the noise that 60 % of the ε buy alone. Tune on a released table first, which is free.",
            "Papernot & Steinke 2022 (arXiv 2110.03620); `benchmarks/tuning.py`",
            "the settings below",
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, value: Any) -> Any:
        """Take what earlier versions wrote under `settings` as if it stood beside it, and refuse what no epsilon covers."""
        if not isinstance(value, dict):
            return value
        flat = dict(value)
        if isinstance(value.get("settings"), dict):
            nested = flat.pop("settings")
            if twice := sorted(flat.keys() & nested.keys() - FIRST):
                raise InvalidInput(f"training: {twice[0]}: `settings` says so too; remove it there.")
            warnings.warn(
                f"training: settings: is the spelling of earlier versions; write {', '.join(map(str, nested))} under "
                f"training itself, as dp-synth docs training shows.",
                FutureWarning,  # which Python shows to people who write no code
                stacklevel=2,
            )
            flat |= nested
        if flat.keys() & SEEDS:
            raise InvalidInput("training: seed: a seed would repeat the noise and void the guarantee; remove it.")
        if selections := sorted(flat.keys() & SELECTIONS.keys()):
            raise InvalidInput(
                f"training: {selections[0]}: it stops or selects on a loss of real rows, which no epsilon would cover. "
                f"Instead, {SELECTIONS[selections[0]]}."
            )
        return flat

    @model_validator(mode="after")
    def _within_ranges(self) -> TrainingSettings:
        self.spec()
        return self

    @model_validator(mode="after")
    def _something_to_keep(self) -> TrainingSettings:
        if self.train_only is not None and self.start not in ("public", "warm_start"):
            raise InvalidInput(
                f"training: train_only: it keeps what the layers before the heads learnt elsewhere, and start: {self.start} "
                f"has learnt nothing there; write start: public or start: warm_start, or remove it."
            )
        if self.train_only is not None and self.method == "marginals":
            raise InvalidInput("training: train_only: method: marginals trains nothing; remove one of them.")
        return self

    @model_validator(mode="after")
    def _sound_study(self) -> TrainingSettings:
        """Refuse a study of trainings that do not run, that look at the loss meanwhile, or of what is set already."""
        if self.tune is None:
            return self
        conflicts = {
            "method: marginals, which trains nothing": self.method == "marginals",
            "looks, which end a training early": self.looks > 0,
            "noise_multiplier, since its trials have the noise that fits": self.noise_multiplier is not None,
            **{
                f"{name}, which it draws": getattr(self, name) != getattr(GeneratorSpec, name)
                for name in self.tune.space
            },
        }
        if found := [name for name, is_so in conflicts.items() if is_so]:
            raise InvalidInput(f"training: tune: it does not go with {found[0]}; remove one of them.")
        return self

    def spec(self) -> GeneratorSpec:
        """The network and optimiser settings."""
        own = self.model_dump(exclude={"purpose", "public", "max_epochs", "tune"})
        return GeneratorSpec(max_epochs=self.max_epochs or MAX_EPOCHS[Purpose(self.purpose)], **own)

    def terms(self) -> dict[str, Any]:
        """Return what a release is charged for, JSON-ready, as each version wrote it: what is as by default is left out.

        So what is asked has one hash, whichever version or spelling asks it.
        """
        facts, defaults = self.model_dump(mode="json"), TrainingSettings().model_dump(mode="json")
        changed = {k: v for k, v in facts.items() if k not in FIRST and v != defaults[k]}
        return {**{k: facts[k] for k in FIRST}, "settings": changed}

    @classmethod
    def of_terms(cls, terms: dict[str, Any]) -> TrainingSettings:
        """Return the settings whose terms those of a release are, whichever version wrote them."""
        return cls(**{k: v for k, v in terms.items() if k != "settings"} | terms.get("settings", {}))
