"""PolicyValueModel: packed reading equals reading one by one, and no full logits exist."""

import pytest
import torch

from llm_gym.core.errors import ConfigError
from llm_gym_agents.model import head
from llm_gym_agents.model.packed_attention import NAME
from llm_gym_agents.model.policy_value import PolicyValueModel
from tests.agents.tiny import tiny_model

LENGTHS = [5, 1, 9, 3, 20, 20]
FAMILIES = [
    "llama", "gpt2", "qwen2", "qwen3", "phi3", "mistral", "gemma3_text", "granite", "cohere",
]  # fmt: skip


def batch(seed=0, lengths=LENGTHS):
    """Random sequences, and every token of them but the first as a sampled one."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(256, (sum(lengths),), generator=generator)
    starts = torch.tensor([0, *lengths]).cumsum(0)[:-1].tolist()
    positions = [s + at for s, n in zip(starts, lengths, strict=True) for at in range(n - 1)]
    positions = torch.tensor(positions)
    return ids, torch.tensor(lengths), positions, ids[positions + 1]


def one_by_one(lm, ids, lengths, temperature=1.0):
    """Log-probs and entropies of every token but the first, each sequence read alone."""
    log_probs, entropies = [], []
    for sequence in ids.split(lengths.tolist()):
        logits = lm(input_ids=sequence[None]).logits[0].float() / temperature
        table = logits.log_softmax(-1)
        log_probs.append(table[:-1].gather(-1, sequence[1:, None]).squeeze(-1))
        entropies.append(-(table.exp() * table).sum(-1)[:-1])
    return torch.cat(log_probs), torch.cat(entropies)


@pytest.mark.parametrize(
    ("family", "temperature"), [*((each, 1.0) for each in FAMILIES), ("llama", 2.0)]
)
def test_packed_reading_equals_reading_one_by_one(family, temperature):
    lm = tiny_model(family)
    usual = lm.config._attn_implementation
    ids, lengths, positions, actions = batch()
    scores = PolicyValueModel(lm, temperature=temperature)(ids, lengths, positions, actions)
    assert lm.config._attn_implementation == usual != NAME
    log_probs, entropies = one_by_one(lm, ids, lengths, temperature)
    torch.testing.assert_close(scores.log_prob_T, log_probs, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(scores.entropy_T, entropies, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_gradients_equal_those_of_reading_one_by_one(family):
    lm = tiny_model(family)
    ids, lengths, positions, actions = batch()
    one_by_one(lm, ids, lengths)[0].sum().backward()
    expected = {name: p.grad.clone() for name, p in lm.named_parameters() if p.grad is not None}
    lm.zero_grad()
    PolicyValueModel(lm)(ids, lengths, positions, actions).log_prob_T.sum().backward()
    for name, parameter in lm.named_parameters():
        if name in expected:
            torch.testing.assert_close(parameter.grad, expected[name], atol=1e-4, rtol=1e-4)


def test_no_tensor_of_tokens_times_vocabulary_is_kept(monkeypatch):
    monkeypatch.setitem(head.CHUNK_BYTES, "cpu", 4 * 264 * 4)
    largest = 0

    def measure(tensor):
        nonlocal largest
        largest = max(largest, tensor.numel())
        return tensor

    ids, lengths, positions, actions = batch(lengths=[60, 60])
    model = PolicyValueModel(tiny_model())
    with torch.autograd.graph.saved_tensors_hooks(measure, lambda tensor: tensor):
        model(ids, lengths, positions, actions)
    weights = max(p.numel() for p in model.parameters())
    assert largest <= max(weights, 120 * 48)
    assert largest < len(actions) * 264


def test_a_new_critic_predicts_zero():
    model = PolicyValueModel(tiny_model())
    assert not model(*batch()).value_T.any()


@pytest.mark.parametrize("critic", ["shared", "separate"])
def test_values_are_read_at_further_positions(critic):
    model = PolicyValueModel(tiny_model(), critic=critic)
    torch.nn.init.normal_(model.value_head.weight)
    ids, lengths, positions, tokens = batch()
    further = torch.tensor([0, 7, len(ids) - 1])
    scores = model(ids, lengths, positions, tokens, further, entropy="none")
    everywhere = model(ids, lengths, torch.arange(len(ids)), ids).value_T
    assert scores.entropy_T is None
    torch.testing.assert_close(scores.value_T, everywhere[positions])
    torch.testing.assert_close(scores.bootstrap_B, everywhere[further])


def test_a_separate_critic_has_weights_of_its_own():
    model = PolicyValueModel(tiny_model(), critic="separate")
    torch.nn.init.normal_(model.value_head.weight)
    before = model(*batch())
    with torch.no_grad():
        for weight in model.critic_lm.parameters():
            weight.mul_(1.5)
    after = model(*batch())
    assert after.log_prob_T.equal(before.log_prob_T)
    assert not after.value_T.equal(before.value_T)
    shared = {p.data_ptr() for p in model.lm.parameters()}
    assert not shared & {p.data_ptr() for p in model.critic_lm.parameters()}


def test_attention_softcapping_is_refused():
    model = PolicyValueModel(tiny_model("gemma2", attn_logit_softcapping=50.0))
    with pytest.raises(ConfigError, match="softcapping"):
        model(*batch())


@pytest.mark.parametrize(("name", "value"), [("critic", "twin"), ("temperature", 0.0)])
def test_bad_settings_are_named(name, value):
    with pytest.raises(ConfigError, match=name):
        PolicyValueModel(tiny_model(), **{name: value})
