from __future__ import annotations

from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.privacy.tagged import TaggedEvent, tag, tagged


def test_a_later_attempt_has_the_tag_of_the_mechanism_that_it_goes_on_with() -> None:
    names = ("training", "training, resumed at 500", "training, resumed at 500, attempt 3")
    assert {tag(name) for name in names} == {"training"}


def test_events_and_pairs_become_tagged_events_and_tagged_ones_stay() -> None:
    event = Gaussian(2.0)
    assert tagged([event, ("a, resumed at 1", event), TaggedEvent("b", event)]) == (
        ("", event),
        ("a", event),
        ("b", event),
    )
    assert [str(one) for one in tagged([event, ("a", event)])] == [str(event), f"a: {event}"]


def test_an_event_without_a_tag_agrees_with_every_mechanism() -> None:
    bare, one, other = tagged([Gaussian(2.0), ("a", Gaussian(2.0)), ("b", Gaussian(2.0))])
    assert bare.agrees(one)
    assert one.agrees(bare)
    assert one.agrees(one)
    assert not one.agrees(other)
