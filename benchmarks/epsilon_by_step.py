"""What each step of a release spends: `python benchmarks/epsilon_by_step.py [--rows N] [--numbers K] [--categories K]`.

Prints a Markdown table for each epsilon asked, by default for the shape of the Adult census (43,958 rows, 6 numbers, 9
categories). It reads no data: what a step spends follows from public facts and the row count alone, and comes from the
same functions that plan a real release. Epsilons of steps do not add up to that of the release: composition by privacy
loss distributions costs less than the sum. Rényi divergences at a fixed order do add up, so shares are given in those.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import pyarrow as pa

from dp_synth_pipeline.privacy import accountant, filter
from dp_synth_pipeline.privacy.budget import Budget
from dp_synth_pipeline.privacy.events import (
    DiscreteLaplace,
    Event,
    Gaussian,
    SubsampledGaussian,
    Threshold,
)
from dp_synth_pipeline.synthesis import allocation
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.synthesis.training_settings import TrainingSettings
from dp_synth_pipeline.tabular import schema as schema_lib
from dp_synth_pipeline.tabular.profiling.profile_plan import RANGE_FINDING, REFINEMENT, ROUNDED

Step = tuple[str, Event]
CODES = 40
"""Codes of each column, which the profile would release; what a step spends does not depend on them."""


def steps(settings: ReleaseSettings, schema: schema_lib.TableSchema, rows: int, delta: float) -> Iterator[Step]:
    """Yield the events of one release in the order in which they are performed, each planned after the ones before."""
    asked, spec = allocation.BudgetRequest.of(settings, delta), settings.training.spec()
    profile, budget = allocation.plan_profile(settings, asked, schema, population=rows), Budget(settings.epsilon, delta)
    spent: list[Event] = [*profile.count_events(), *profile.histogram_events(schema)]
    yield from ((_name(e, profile.scale), e) for e in spent)
    if spec.method != "autoregressive":
        codes = [CODES] * len(schema.learned)
        pairs = allocation.marginals(allocation.RemainingBudget(tuple(spent), budget), spec, codes, rows, rows, 1)
        spent.append(pairs.event)
        yield "marginals", pairs.event
    if spec.method != "marginals":
        training, looks = allocation.training(allocation.RemainingBudget(tuple(spent), budget), spec, rows)
        if looks is not None:
            yield "looks at the loss", looks.event
        yield "training", training.event


def _name(event: Event, scale: float) -> str:
    if isinstance(event, DiscreteLaplace):
        return "row count"
    if isinstance(event, Threshold):
        return "profile: thresholds"
    factors = {REFINEMENT: "refinement", 1.0: "base", RANGE_FINDING: "range-finding", ROUNDED: "rounding"}
    return f"profile: {factors[min(factors, key=lambda factor: abs(factor - event.noise / scale))]} histograms"


def noise(event: Event) -> str:
    """Say in words what was drawn."""
    if isinstance(event, DiscreteLaplace):
        return f"geometric, scale {event.scale:.3g} units"
    if isinstance(event, Gaussian):
        rows = f"{event.noise_multiplier:.3g} rows"
        return f"{event.count} with deviation {rows}" if event.count > 1 else f"as one Gaussian of {rows}"
    if isinstance(event, SubsampledGaussian):
        return f"{event.steps} steps, rate {event.sample_rate:.3g}, multiplier {event.noise_multiplier:.3g}"
    return "none; delta alone"


def table(found: Sequence[Step], epsilon: float, delta: float, order: float) -> str:
    """Return the Markdown table of one release."""
    events = [e for _, e in found]
    total = accountant.rdp(events, order)
    lines = [
        f"| step at epsilon {epsilon:g} | noise | epsilon alone (PLD) | Rényi at order {order:g} | share | own delta |",
        "|---|---|---|---|---|---|",
    ]
    alone = []
    for name, event in found:
        divergence = accountant.rdp(event, order)
        alone.append(0.0 if isinstance(event, Threshold) else accountant.epsilon(event, delta))
        lines.append(
            f"| {name} | {noise(event)} | {alone[-1]:.3f} | {divergence:.5f} | {divergence / total:.1%} "
            f"| {event.own_delta:.2g} |"
        )
    left = delta - accountant.own_delta(events)
    renyi = min(accountant.rdp(events, a) - filter.limit(0.0, left, a) for a in filter.ORDERS)
    lines += [
        f"| **release, by PLD** | | **{accountant.epsilon(events, delta):.3f}** | {total:.5f} | 100 % | |",
        f"| release, by Rényi at order {order:g} | | {total - filter.limit(0.0, left, order):.3f} | | | |",
        f"| release, by Rényi at its best order | | {renyi:.3f} | | | |",
        f"| sum of the epsilons above | | {sum(alone):.3f} | | | |",
    ]
    return "\n".join(lines)


def main() -> None:
    """Print one table for each epsilon."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=43_958)
    options.add_argument("--numbers", type=int, default=6)
    options.add_argument("--categories", type=int, default=9)
    options.add_argument("--delta", type=float, default=1e-5)
    options.add_argument("--epsilon", type=float, nargs="+", default=[2.51, 1.0, 0.5])
    options.add_argument("--epochs", type=int, help="by default those of the settings")
    asked = options.parse_args()
    storage = {f"n{i}": pa.int64() for i in range(asked.numbers)} | {
        f"c{i}": pa.string() for i in range(asked.categories)
    }
    schema = schema_lib.build(storage)
    for epsilon in asked.epsilon:
        settings = ReleaseSettings(
            table="t",
            source="t.csv",
            account="t",
            epsilon=epsilon,
            delta=asked.delta,
            training=TrainingSettings(max_epochs=asked.epochs),
        )
        found = list(steps(settings, schema, asked.rows, asked.delta))
        order = filter.best_order(epsilon, asked.delta)
        print(table(found, epsilon, asked.delta, order), end="\n\n")


if __name__ == "__main__":
    main()
