"""The last layer at few positions: the numbers and gradients of the whole one, with less work."""

import pytest
import torch

from llm_gym_agents.model import policy_value as model_module
from llm_gym_agents.model.last_layer import LAYERS, is_worth_it
from llm_gym_agents.model.policy_value import PolicyValueModel
from tests.agents.model.test_shared_prefix import assert_same, scores_and_gradients
from tests.agents.tiny import tiny_model
from tests.agents.work import TensorWork
from tests.matrix import some_of

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
LENGTHS = (9, 2, 30, 17, 5)


def some_positions(order):
    """Some positions of each sequence but the second, in any order."""
    generator = torch.Generator().manual_seed(1)
    ids_S = torch.randint(256, (sum(LENGTHS),), generator=generator)
    position = torch.tensor([7, 6, 12, 39, 40, 41, 57, 58])[order]
    further = torch.tensor([62])
    return ids_S, torch.tensor(LENGTHS), position, torch.randint(256, (8,)), further


@pytest.mark.parametrize(
    ("family", "critic", "order"),
    some_of(FAMILIES, ["shared", "separate"], [list(range(8)), [3, 0, 7, 1, 5, 4, 2, 6]]),
)
def test_few_positions_have_the_numbers_and_gradients_of_all(family, critic, order, monkeypatch):
    torch.manual_seed(0)
    lm = tiny_model(family, **({"sliding_window": None} if family == "mistral" else {}))
    model = PolicyValueModel(lm, critic=critic)
    torch.nn.init.normal_(model.value_head.weight)
    assert type(lm.base_model.layers[-1]).__name__ in LAYERS
    inputs = some_positions(order)
    assert is_worth_it(lm.base_model, sum(LENGTHS), 9)
    few = scores_and_gradients(model, inputs)
    monkeypatch.setattr(model_module, "is_worth_it", lambda *_: False)
    every = scores_and_gradients(model, inputs)
    for one, other in zip(few[0], every[0], strict=True):
        torch.testing.assert_close(one, other, atol=2e-6, rtol=1e-5)
    assert_same(few[1], every[1])


def test_a_pass_makes_fewer_numbers(monkeypatch):
    model, made = PolicyValueModel(tiny_model()), {}
    for few in (True, False):
        monkeypatch.setattr(model_module, "is_worth_it", is_worth_it if few else lambda *_: False)
        with TensorWork() as work:
            scores_and_gradients(model, some_positions(list(range(8))))
        made[few] = work.numbers
    assert made[True] < 0.85 * made[False]


def test_the_layer_is_restored_afterwards():
    model = PolicyValueModel(tiny_model())
    last = model.lm.base_model.layers[-1]
    model(*some_positions(list(range(8))))
    assert "forward" not in vars(last)
    broken = (torch.tensor([1, 2, 3]), torch.tensor([3]), torch.tensor([99]), torch.tensor([1]))
    with pytest.raises((IndexError, RuntimeError)):
        model(*broken)
    assert "forward" not in vars(last)


@pytest.mark.parametrize("family", ["gpt2", "gemma2"])
def test_an_unknown_layer_is_left_alone(family):
    assert not is_worth_it(tiny_model(family).base_model, 100, 1)


def test_the_last_layer_is_cut_only_where_it_pays():
    trunk = tiny_model().base_model
    assert is_worth_it(trunk, 100, 50)
    assert not is_worth_it(trunk, 100, 51)
    with torch.autocast("cpu", torch.bfloat16):
        assert not is_worth_it(trunk, 100, 10)
    sliding = tiny_model("mistral", sliding_window=4).base_model
    assert not is_worth_it(sliding, 100, 10)


def test_rows_are_chosen_by_index_select():
    """An index is added up number by number on the way back; a selection of rows is not."""
    scores = PolicyValueModel(tiny_model())(*some_positions(list(range(8))))
    found, todo = set(), [scores.log_prob_T.grad_fn, scores.value_T.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in found:
            found.add(node)
            todo += [before for before, _ in node.next_functions]
    kinds = {type(node).__name__ for node in found}
    assert "IndexSelectBackward0" in kinds
    assert "IndexBackward0" not in kinds
