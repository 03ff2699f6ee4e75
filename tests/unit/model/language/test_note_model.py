"""Texts are drawn token by token with the probabilities that the model has, from one generator of random numbers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

transformers = pytest.importorskip("transformers", reason="needs the extra `text`")
pytest.importorskip("peft", reason="needs the extra `text`")

from dp_synth_pipeline.model.language import note_model  # noqa: E402
from dp_synth_pipeline.model.language.drawing import Wanted  # noqa: E402
from dp_synth_pipeline.model.language.note_model import NoteModel  # noqa: E402
from dp_synth_pipeline.model.language.note_network import NoteNetwork  # noqa: E402
from dp_synth_pipeline.model.language.public_model import PublicModel  # noqa: E402

VOCABULARY, END = 7, 0


class Words:
    """A tokenizer whose tokens are numbers with blanks between."""

    eos_token_id = END

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": [int(word) for word in text.split()]}

    def batch_decode(self, rows: torch.Tensor, skip_special_tokens: bool) -> list[str]:
        return [" ".join(str(int(t)) for t in row if t != END) for row in rows]


@pytest.fixture
def model(tmp_path) -> NoteModel:
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.LlamaConfig(vocab_size=VOCABULARY, num_key_value_heads=2, eos_token_id=END, **sizes)
    language = transformers.LlamaForCausalLM(config)
    torch.nn.init.normal_(language.lm_head.weight, std=1.0)
    made = NoteModel(PublicModel(tmp_path), rank=1, prompt=4, most=3)
    made.__dict__ |= {"network": NoteNetwork(language, 1, 4 + made.written), "tokenizer": Words()}
    return made


def test_tokens_come_with_the_probabilities_that_the_model_has(model: NoteModel) -> None:
    """The first token of 4,000 texts, within 6.5 deviations of each count: fails by chance once in 10^9 runs."""
    rows = 4_000
    logits = model.network.language(input_ids=torch.tensor([[3, 5]])).logits[0, -1]
    wanted = logits.softmax(0).detach().numpy()
    texts = model.write(["3 5"] * rows, np.random.default_rng())
    first = np.bincount([int(text.split()[0]) if text else END for text in texts], minlength=VOCABULARY)
    assert (np.abs(first - rows * wanted) < 6.5 * np.sqrt(rows * wanted * (1 - wanted)) + 1).all()


WORD_OF = np.array([2, 0, 1, 2, 2, 2, 2])
"""Tokens 1 and 2 are words of their own, and all others are one."""


def wanted(rows: int, length: float = 50.0, lean: tuple[float, ...] = (0.0, 0.0, 0.0)) -> Wanted:
    return Wanted(np.full(rows, length), np.tile(np.array(lean, np.float32), (rows, 1)), WORD_OF)


def test_a_leaning_is_added_to_the_logarithm_of_each_word(model: NoteModel) -> None:
    """The first token of 4,000 texts, within 6.5 deviations of each count: fails by chance once in 10^9 runs."""
    rows, lean = 4_000, (1.5, -1.0, 0.0)
    logits = model.network.language(input_ids=torch.tensor([[3, 5]])).logits[0, -1]
    shares = (logits + torch.tensor(lean)[torch.from_numpy(WORD_OF)]).softmax(0).detach().numpy()
    drawn = model.draw(["3 5"] * rows, wanted(rows, lean=lean), np.random.default_rng())
    first = np.bincount([d.tokens[0] if len(d.tokens) else END for d in drawn], minlength=VOCABULARY)
    assert (np.abs(first - rows * shares) < 6.5 * np.sqrt(rows * shares * (1 - shares)) + 1).all()
    np.testing.assert_allclose([d.ends[0] for d in drawn], shares[END], rtol=1e-4)


def test_what_is_drawn_says_how_long_it_is_at_each_place_and_ends_where_it_ended(model: NoteModel) -> None:
    for text in model.draw(["1 2", "3"] * 50, wanted(100), np.random.default_rng()):
        assert END not in text.tokens
        places = min(len(text.tokens) + 1, model.written)
        assert len(text.ends) == len(text.characters) == places
        np.testing.assert_array_equal(text.characters, np.arange(places))  # each token is one character


def test_no_text_is_drawn_far_beyond_its_length(model: NoteModel) -> None:
    model.most = 300
    model.__dict__["network"] = NoteNetwork(model.network.language.get_base_model(), 1, 4 + model.written)
    lean = (9.0, 0.0, 0.0)  # so that none ends by itself
    drawn = model.draw(["1"] * 20, wanted(20, length=4.0, lean=lean), np.random.default_rng())
    assert max(len(d.tokens) for d in drawn) == 8  # one and a half times, and two


def test_one_seed_writes_one_text_and_another_another(model: NoteModel) -> None:
    prompts = ["1 2", "3", "4 4 4"] * 40
    first, again, other = (model.write(prompts, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_where_there_is_no_room_fewer_are_written_at_once(model: NoteModel, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    honest = model.network.language.generate

    def generate(input_ids: torch.Tensor, **options: object) -> torch.Tensor:
        asked.append(len(input_ids))
        if len(input_ids) > 2:
            raise torch.cuda.OutOfMemoryError
        return honest(input_ids=input_ids, **options)

    monkeypatch.setattr(note_model, "AT_ONCE", {"cpu": 8})
    monkeypatch.setattr(model.network.__class__, "language", property(lambda self: SimpleNamespace(generate=generate)))
    monkeypatch.setattr(model.network.__class__, "_apply", lambda self, *_: self)
    assert len(model.write(["1", "2", "3", "4", "5"], np.random.default_rng())) == 5
    assert asked == [5, 4, 2, 2, 1]
