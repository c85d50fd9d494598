"""Estimators and losses by name, and the streams that they are given."""

import re
from pathlib import Path

import pytest
import torch

from llm_gym.core.errors import ConfigError
from llm_gym_agents.algo import (
    ADVANTAGES,
    AGGREGATIONS,
    POLICY_LOSSES,
    Advantages,
    StreamError,
    TokenLoss,
    TokenStream,
    get_advantage,
    get_policy_loss,
    register_advantage,
    register_policy_loss,
)
from tests.agents.algo.reference import inputs_of

STREAM = TokenStream(reward_T=torch.tensor([1.0, 2.0]), lengths_E=torch.tensor([2]))


@pytest.fixture(autouse=True)
def _own_names(monkeypatch):
    monkeypatch.setattr(ADVANTAGES, "_specs", dict(ADVANTAGES._specs))
    monkeypatch.setattr(POLICY_LOSSES, "_specs", dict(POLICY_LOSSES._specs))


def test_every_built_in_estimator_and_policy_loss_is_registered():
    states = {"gigpo", "state_td", "vine"}
    groups = {"grpo", "dr_grpo", "rloo", "reinforce_plus_plus_baseline", "gigpo", "state_td"}
    specs = {name: get_advantage(name) for name in built_in(ADVANTAGES)}
    assert {name for name, spec in specs.items() if spec.needs_critic} == {"gae", "gae_turn"}
    assert {name for name, spec in specs.items() if spec.needs_groups} == groups
    assert {name for name, spec in specs.items() if spec.needs_states} == states
    assert specs.keys() - groups == {"gae", "gae_turn", "reinforce_plus_plus", "vine"}
    assert set(POLICY_LOSSES.names()) >= {"ppo", "gspo", "cispo"}
    assert get_policy_loss("gspo").needs_whole_episodes
    assert get_policy_loss("gspo").aggregation == "seq-mean-token-mean"
    assert not get_policy_loss("ppo").needs_whole_episodes


@pytest.mark.parametrize("name", ["gae", "gae_turn", "grpo", "rloo"])
def test_a_stream_that_lacks_what_is_needed_is_refused(name):
    with pytest.raises(StreamError, match=name):
        get_advantage(name)(STREAM)


def test_a_name_or_setting_that_does_not_exist_suggests_the_closest():
    for act, meant in (
        (lambda: get_advantage("grop"), "'grpo'"),
        (lambda: get_policy_loss("pppo"), "'ppo'"),
        (lambda: get_advantage("reinforce_plus_plus")(STREAM, gama=0.9), "'gamma'"),
        (lambda: get_advantage("grpo")(STREAM, lam=0.9), "'lam'"),
    ):
        with pytest.raises(ConfigError, match=meant):
            act()


ONE_OF_EACH = TokenStream(
    reward_T=torch.tensor([0.0, 1.0]),
    lengths_E=torch.tensor([1, 1]),
    value_T=torch.zeros(2),
    group_E=torch.tensor([0, 0]),
    state_K=torch.tensor([0, 1]),
    branch_turn_B=torch.tensor([0]),
    branch_state_B=torch.tensor([0]),
    branch_return_B=torch.tensor([1.0]),
)


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("gae", "gamma", 1.1), ("gae", "lam", -0.1), ("gae", "discount", "turns"),
        ("grpo", "credit", "token"), ("gigpo", "gamma", 2.0), ("vine", "branches", 0),
        ("state_td", "shrinkage", -1.0), ("state_td", "branches", -1),
        ("state_td", "table_lambda", 2.0),
        *(("ppo", "clip_ratio", bad) for bad in ((1.5, 0.2), -0.1, [0.1, 0.2, 0.3])),
        ("ppo", "dual_clip", 1.0), ("ppo", "clip", 0.1),
    ],
)  # fmt: skip
def test_a_setting_outside_its_range_is_refused_by_its_name(name, setting, value):
    act, data = get_advantage, ONE_OF_EACH
    if name == "ppo":
        act, data = get_policy_loss, inputs_of(*torch.zeros(3, 2))
    act = act(name)
    act(data)
    with pytest.raises(ConfigError, match=setting):
        act(data, **{setting: value})


def test_users_register_their_own():
    @register_advantage("double", needs_groups=False)
    def double(stream, *, factor=2.0):
        return Advantages(factor * stream.reward_T, stream.reward_T)

    assert get_advantage("double")(STREAM, factor=3.0).advantages_T.tolist() == [3.0, 6.0]
    assert double(STREAM).advantages_T.tolist() == [2.0, 4.0]

    @register_policy_loss("linear")
    def linear(inputs):
        return TokenLoss(-inputs.advantages_T, {})

    inputs = inputs_of(*torch.ones(3, 1))
    assert get_policy_loss("linear")(inputs).loss_T.tolist() == [-1.0]


def breaks(stream):
    raise KeyError("weights")


def test_an_error_in_a_custom_estimator_names_the_line():
    own = get_advantage(f"{__name__}:breaks")
    with pytest.raises(StreamError, match=r"^'.*:breaks' raised KeyError: 'weights' \(.*line"):
        own(STREAM)


def test_a_taken_name_is_refused_but_the_same_function_may_come_again():
    def mine(stream):
        return Advantages(stream.reward_T, stream.reward_T)

    register_advantage("taken")(mine)
    register_advantage("taken")(mine)
    with pytest.raises(ConfigError, match="'gae'"):
        register_advantage("gae")(mine)


def test_a_function_with_kwargs_or_without_defaults_is_refused():
    with pytest.raises(ConfigError, match="kwargs"):

        @register_advantage("sink")
        def sink(stream, **kwargs):
            return Advantages(stream.reward_T, stream.reward_T)

    with pytest.raises(ConfigError, match="scale"):

        @register_advantage("bare")
        def bare(stream, *, scale):
            return Advantages(stream.reward_T, stream.reward_T)


def test_an_estimator_may_return_a_plain_pair_and_nothing_of_another_shape():
    register_advantage("pair")(lambda stream: (stream.reward_T, stream.reward_T))
    assert get_advantage("pair")(STREAM).advantages_T.tolist() == [1.0, 2.0]
    wrong = {
        "of_episodes": lambda stream: (stream.scores_E, stream.scores_E),
        "alone": lambda stream: stream.reward_T,
        "one_number": lambda stream: (stream.reward_T, 0.0),
    }
    for name, function in wrong.items():
        register_advantage(name)(function)  # type: ignore[arg-type]
        with pytest.raises(StreamError, match=name):
            get_advantage(name)(STREAM)


def test_a_policy_loss_returns_one_loss_for_each_token_that_can_be_learned_from():
    inputs = inputs_of(torch.zeros(2, requires_grad=True), torch.zeros(2), torch.ones(2))
    wrong = {
        "nothing": lambda inputs: None,
        "a_tensor": lambda inputs: -inputs.log_prob_T,
        "the_mean": lambda inputs: TokenLoss(-inputs.log_prob_T.mean(), {}),
        "one_token": lambda inputs: TokenLoss(-inputs.log_prob_T[:1], {}),
        "a_number": lambda inputs: TokenLoss(-inputs.log_prob_T, {"loss/mine": 1.0}),
    }
    for name, function in wrong.items():
        register_policy_loss(name)(function)  # type: ignore[arg-type]
        with pytest.raises(StreamError, match=name):
            get_policy_loss(name)(inputs)
    register_policy_loss("still")(lambda inputs: TokenLoss(-inputs.log_prob_T.detach(), {}))
    with pytest.raises(StreamError, match="still"):
        get_policy_loss("still")(inputs)


PAGE = (Path(__file__).parents[3] / "docs" / "algorithms.md").read_text()


def built_in(registry):
    return [
        name
        for name in registry.names()
        if registry.get(name).function.__module__.startswith("llm_gym_agents.algo.")
    ]


@pytest.mark.parametrize("name", sorted({*built_in(ADVANTAGES), *built_in(POLICY_LOSSES)}))
def test_every_estimator_and_loss_has_a_row_with_formula_and_reason(name):
    rows = re.findall(rf"^\| `{name}` \| (.+) \| (.+) \|$", PAGE, flags=re.MULTILINE)
    assert len(rows) == (name in ADVANTAGES.names()) + (name in POLICY_LOSSES.names())
    assert all(f"| `{mode}` |" in PAGE for mode in AGGREGATIONS)


def test_turns_are_read_from_their_ends_and_without_them_an_episode_is_one():
    lengths_E, ends_T = torch.tensor([4, 0, 2]), torch.tensor([0, 1, 0, 1, 0, 1])
    stream = TokenStream(reward_T=torch.zeros(6), lengths_E=lengths_E, turn_ends_T=ends_T)
    assert stream.turn_lengths_K.tolist() == [2, 2, 2]
    assert stream.turn_starts_K.tolist() == [0, 2, 4]
    assert stream.turns_E.tolist() == [2, 0, 1]
    whole = TokenStream(reward_T=torch.zeros(6), lengths_E=lengths_E)
    assert whole.turn_lengths_K.tolist() == [4, 2]


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"reward_T": torch.zeros(3)}, "reward_T"),
        ({"value_T": torch.zeros(2, 1)}, "value_T"),
        ({"group_E": torch.zeros(1)}, "group_E"),
        ({"lengths_E": torch.tensor([3, -1])}, "lengths_E"),
        ({"lengths_E": torch.tensor([1.0, 1.0])}, "lengths_E"),
        ({"reward_T": torch.tensor([0.0, NAN])}, "nan in episode 1"),
        ({"value_T": torch.tensor([INF, 0.0])}, "inf in episode 0"),
        ({"turn_ends_T": torch.tensor([1, 0])}, "episode 1"),
        ({"bootstrap_E": torch.zeros(2)}, "terminated_E"),
        (
            {"terminated_E": torch.tensor([1, 0]), "bootstrap_E": torch.tensor([0.0, NAN])},
            "episode 1",
        ),
    ],
)
def test_broken_data_is_refused(fields, what):
    with pytest.raises(StreamError, match=what):
        TokenStream(**{"reward_T": torch.zeros(2), "lengths_E": torch.tensor([1, 1])} | fields)
