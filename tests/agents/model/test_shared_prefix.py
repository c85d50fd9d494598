"""What sequences share is read once, and numbers and gradients are those of whole sequences."""

import itertools

import pytest
import torch

from llm_gym_agents.config import ModelConfig
from llm_gym_agents.model import policy_value as model_module
from llm_gym_agents.model.lean_layers import recompute_contexts
from llm_gym_agents.model.policy_value import PolicyValueModel
from llm_gym_agents.model.shared_prefix import Prefixes, share_prefixes
from llm_gym_agents.trainer.build import prepare_lm
from tests.agents.tiny import tiny_model
from tests.agents.work import TensorWork

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma2", "gpt2")
RULES = list(range(1, 21))
TREE = (
    [*RULES, 30, 31, 32],
    [9, 8, 7, 6],
    [*RULES, 30, 31, 33, 34],
    [*RULES, 30, 31, 33, 34],
    [*RULES, 40],
    RULES,
)
"""Rules that five of six begin with, a longer prefix of three, one twice, one that is a prefix."""


def packed(rows):
    return torch.tensor([each for row in rows for each in row]), torch.tensor([*map(len, rows)])


def whole(found):
    """The sequences as the layout holds them: each id at its place."""
    return found.ids_U[found.place_S].tolist()


def test_each_prefix_is_read_once_and_every_id_has_its_place():
    ids, lengths = packed(TREE)
    found = share_prefixes(ids, lengths, pads=True)
    assert whole(found) == ids.tolist()
    assert len(found.ids_U) == 20 + 2 + 2 + 1 + 1 + 4  # rules, 30 31, 33 34, 32, 40, the other
    longest = {tuple(TREE[0]), tuple(TREE[1]), tuple(TREE[2]), tuple(TREE[4])}
    assert whole_rows(found.packing, found.ids_U) == longest, "all but a copy and a prefix"


def whole_rows(packing, ids_U):
    """What the last query of each sequence sees, in both ways of attention."""
    shared, rows = packing.shared, packing.rows
    own = packing.starts.diff().tolist()
    keys = [
        ids_U[shared.index_K[a:b]].tolist() for a, b in itertools.pairwise(shared.starts.tolist())
    ]
    padded = ids_U[shared.padded()].view(rows, -1).tolist()
    position = iter(shared.position_S.tolist())
    for row, number, table in zip(keys, own, padded, strict=True):
        assert number > 0
        assert [next(position) for _ in range(number)] == [*range(len(row))][-number:]
        assert table[: len(row)] == row
    ends = [tuple(row) for row in keys]
    return {row for row in ends if not any(row == each[: len(row)] for each in ends if each != row)}


@pytest.mark.parametrize("seed", range(20))
def test_random_trees_keep_every_sequence(seed):
    random = torch.Generator().manual_seed(seed)

    def number(most):
        return int(torch.randint(1, most, (1,), generator=random))

    rows = [
        torch.randint(3, (number(12),), generator=random).tolist() for _ in range(number(9) + 1)
    ]
    rows += [[*row[: number(len(row) + 1)], number(3)] for row in rows]
    ids, lengths = packed(rows)
    found = share_prefixes(ids, lengths, pads=True, worth=1.0)
    assert whole(found) == ids.tolist()
    whole_rows(found.packing, found.ids_U)
    tree = {tuple(row[: at + 1]) for row in rows for at in range(len(row))}
    assert len(found.ids_U) == len(tree), "as many ids as a tree of all prefixes has nodes"


@pytest.mark.parametrize("seed", range(10))
def test_the_cost_of_some_sequences_grows_with_them(seed):
    random = torch.Generator().manual_seed(seed)
    rows = [
        torch.randint(2, (int(n),), generator=random).tolist()
        for n in torch.randint(1, 9, (12,), generator=random)
    ]
    prefixes, before = Prefixes(*packed(rows)), 0.0
    order = torch.randperm(12, generator=random).numpy()
    for count in range(1, 13):
        some = [rows[at] for at in order[:count]]
        tree = {tuple(row[: at + 1]) for row in some for at in range(len(row))}
        assert prefixes.unshared(order[:count]) == len(tree)
        read = share_prefixes(*packed(some), pads=True)
        cost = prefixes.cost(order[:count])
        assert cost >= (sum(map(len, some)) if read is None else len(tree))
        assert cost >= before, "a run of sequences can be cut by halving"
        before = cost


def test_a_prefix_of_all_is_cut_into_rows_and_shared_only_where_it_pays():
    rows = [[*range(20), 20 + at, 7, 8, 9] for at in range(16)]
    packing = share_prefixes(*packed(rows), pads=True).packing
    assert packing.longest == 4
    assert packing.rows == 15 + 6  # 24 ids of the first in rows of four
    assert share_prefixes(*packed([[1, 2, 3], [1, 5, 6], [7, 8, 9]]), pads=True) is None
    assert share_prefixes(*packed([[1, 2, 3]]), pads=True) is None


def tree_inputs():
    ids, lengths = packed(TREE)
    ends = lengths.cumsum(0)
    # The last token of each sequence, the first after the rules, and further values.
    position = torch.cat([ends - 2, torch.tensor([19, 46, 70])])
    return ids, lengths, position, ids[position + 1], ends[:2] - 1


def scores_and_gradients(model, inputs):
    model.zero_grad()
    scores = model(*inputs)
    total = scores.log_prob_T.sum() + scores.entropy_T.sum() + scores.value_T.square().sum()
    (total + scores.bootstrap_B.sum()).backward()
    learned = {name: p.grad for name, p in model.named_parameters() if p.requires_grad}
    return scores, {name: gradient.clone() for name, gradient in learned.items()}


def both_ways(model, monkeypatch):
    inputs = tree_inputs()
    once = scores_and_gradients(model, inputs)
    monkeypatch.setattr(model_module, "share_prefixes", lambda *_, **__: None)
    return once, scores_and_gradients(model, inputs)


def assert_same(gradients, wanted):
    for name, gradient in wanted.items():
        near = 1e-5 * max(1.0, float(gradient.abs().max()))
        torch.testing.assert_close(gradients[name], gradient, atol=near, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("few", [True, False], ids=["last layer at few", "plain"])
def test_the_numbers_and_gradients_are_those_of_whole_sequences(family, few, monkeypatch):
    torch.manual_seed(0)
    if not few:
        monkeypatch.setattr(model_module, "is_worth_it", lambda *_: False)
    settings = {"attn_logit_softcapping": None} if family == "gemma2" else {}
    model = PolicyValueModel(tiny_model(family, **settings), critic="shared")
    torch.nn.init.normal_(model.value_head.weight)
    once, every = both_ways(model, monkeypatch)
    for one, other in zip(once[0], every[0], strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
    assert_same(once[1], every[1])


def test_a_separate_critic_and_gradient_checkpointing_share_as_well(monkeypatch):
    torch.manual_seed(0)
    model = PolicyValueModel(tiny_model(), critic="separate")
    model.lm.gradient_checkpointing_enable(
        gradient_checkpointing_kwargs={"use_reentrant": False, "context_fn": recompute_contexts}
    )
    model.lm.train()
    torch.nn.init.normal_(model.value_head.weight)
    once, every = both_ways(model, monkeypatch)
    assert_same(once[1], every[1])


def test_adapters_get_the_same_gradients(monkeypatch):
    pytest.importorskip("peft")
    torch.manual_seed(0)
    model = PolicyValueModel(prepare_lm(ModelConfig(lora_rank=2), tiny_model()))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:  # at 0, their other halves would have no gradient
            torch.nn.init.normal_(parameter, std=0.02)
    torch.nn.init.normal_(model.value_head.weight)
    once, every = both_ways(model, monkeypatch)
    torch.testing.assert_close(once[0].log_prob_T, every[0].log_prob_T, atol=1e-5, rtol=1e-5)
    assert sum("lora_" in name for name in once[1]) > 4
    assert_same(once[1], every[1])


def test_a_pass_makes_fewer_numbers(monkeypatch):
    model, made = PolicyValueModel(tiny_model()), []
    rows = [[*range(60), 100 + at, 7] for at in range(8)]
    ids, lengths = packed(rows)
    position = lengths.cumsum(0) - 2
    for _ in range(2):
        with TensorWork() as work:
            model(ids, lengths, position, ids[position + 1]).log_prob_T.sum().backward()
        made.append(work.numbers)
        monkeypatch.setattr(model_module, "share_prefixes", lambda *_, **__: None)
    assert made[0] < 0.4 * made[1]


@pytest.mark.gpu
@pytest.mark.parametrize("family", ["llama", "mistral", "qwen3"])
def test_shared_prefixes_in_bfloat16_on_a_gpu_are_within_rounding(family, monkeypatch):
    torch.manual_seed(0)
    lm = tiny_model(family).cuda()
    exact = PolicyValueModel(lm, critic="none", compute_dtype=torch.float32)
    rough = PolicyValueModel(lm, critic="none", compute_dtype=torch.bfloat16)
    rows = [[*range(60), 100 + at, 7, 8] for at in range(32)]
    ids, lengths = packed(rows)
    position = (lengths.cumsum(0) - 2).cuda()
    token = torch.full((32,), 8, device="cuda")

    def gradients(model):
        model.zero_grad()
        model(ids, lengths, position, token).log_prob_T.sum().backward()
        return torch.cat([p.grad.flatten().float() for p in lm.parameters() if p.grad is not None])

    once = gradients(rough)
    monkeypatch.setattr(model_module, "share_prefixes", lambda *_, **__: None)
    every, wanted = gradients(rough), gradients(exact)
    assert (once - wanted).norm() <= 1.2 * (every - wanted).norm() + 1e-4 * wanted.norm()
