from __future__ import annotations

import pytest
import torch

from llm_gym.errors import ConfigError
from llm_gym_agents.algo import (
    ADVANTAGES,
    POLICY_LOSSES,
    Advantages,
    PolicyInputs,
    StreamError,
    TokenLoss,
    TokenStream,
    get_advantage,
    get_policy_loss,
    register_advantage,
    register_policy_loss,
)

STREAM = TokenStream(reward_T=torch.tensor([1.0, 2.0]), lengths_E=torch.tensor([2]))


@pytest.fixture(autouse=True)
def _own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ADVANTAGES, "_specs", dict(ADVANTAGES._specs))
    monkeypatch.setattr(POLICY_LOSSES, "_specs", dict(POLICY_LOSSES._specs))


def test_every_promised_estimator_says_what_it_needs() -> None:
    needs = {
        name: (spec.needs_critic, spec.needs_groups, spec.needs_greedy_rollout)
        for name in ADVANTAGES.names()
        for spec in [get_advantage(name)]
        if spec.function.__module__.startswith("llm_gym_agents.algo.")
    }
    critic, groups, greedy, nothing = (
        (True, False, False),
        (False, True, False),
        (False, False, True),
        (False, False, False),
    )
    assert needs == {
        "gae": critic,
        "gae_turn": critic,
        "grpo": groups,
        "dr_grpo": groups,
        "rloo": groups,
        "reinforce_plus_plus": nothing,
        "reinforce_plus_plus_baseline": groups,
        "remax": greedy,
        "opo": groups,
        "gpg": groups,
        "grpo_passk": groups,
    }


def test_every_promised_policy_loss_is_there() -> None:
    assert set(POLICY_LOSSES.names()) >= {"ppo", "gspo", "cispo", "gpg"}
    assert get_policy_loss("gspo").needs_whole_episodes
    assert get_policy_loss("gspo").aggregation == "seq-mean-token-mean"
    assert not get_policy_loss("ppo").needs_whole_episodes


@pytest.mark.parametrize("name", ["gae", "gae_turn", "grpo", "rloo", "remax"])
def test_a_stream_that_lacks_what_is_needed_is_refused(name: str) -> None:
    with pytest.raises(StreamError, match=f"'{name}' needs .*, got None"):
        get_advantage(name)(STREAM)


def test_an_unknown_name_suggests_the_closest() -> None:
    with pytest.raises(ConfigError, match=r"got 'grop' \(did you mean 'grpo'\?\)"):
        get_advantage("grop")
    with pytest.raises(ConfigError, match=r"one of .*, ppo, got 'pppo' \(did you mean 'ppo'\?\)"):
        get_policy_loss("pppo")


def test_a_setting_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"no setting 'gama' \(did you mean 'gamma'\?\)"):
        get_advantage("reinforce_plus_plus")(STREAM, gama=0.9)
    with pytest.raises(ConfigError, match="'opo' has no setting 'lam'; it takes none"):
        get_advantage("opo")(STREAM, lam=0.9)


def test_the_trainer_can_ask_for_settings_and_defaults() -> None:
    assert dict(get_advantage("gae").settings) == {
        "gamma": 1.0,
        "lam": 0.95,
        "discount": "token",
        "whiten": True,
    }


def test_users_register_their_own() -> None:
    @register_advantage("double", needs_groups=False)
    def double(stream: TokenStream, *, factor: float = 2.0) -> Advantages:
        return Advantages(factor * stream.reward_T, stream.reward_T)

    assert get_advantage("double")(STREAM, factor=3.0).advantages_T.tolist() == [3.0, 6.0]
    assert double(STREAM).advantages_T.tolist() == [2.0, 4.0]

    @register_policy_loss("linear")
    def linear(inputs: PolicyInputs) -> TokenLoss:
        return TokenLoss(-inputs.advantages_T, {})

    inputs = PolicyInputs(
        log_prob_T=torch.zeros(1),
        old_log_prob_T=torch.zeros(1),
        advantages_T=torch.ones(1),
        lengths_E=torch.tensor([1]),
    )
    assert get_policy_loss("linear")(inputs).loss_T.tolist() == [-1.0]


def test_a_taken_name_is_refused_but_the_same_function_may_come_again() -> None:
    def mine(stream: TokenStream) -> Advantages:
        return Advantages(stream.reward_T, stream.reward_T)

    register_advantage("mine")(mine)
    register_advantage("mine")(mine)
    with pytest.raises(ConfigError, match=r"must be free, got 'gae', which is llm_gym_agents"):
        register_advantage("gae")(mine)


def test_a_function_that_swallows_settings_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"named keyword with a default, got \*\*kwargs"):

        @register_advantage("sink")
        def sink(stream: TokenStream, **kwargs: float) -> Advantages:
            return Advantages(stream.reward_T, stream.reward_T)

    with pytest.raises(ConfigError, match="got scale"):

        @register_advantage("bare")
        def bare(stream: TokenStream, *, scale: float) -> Advantages:
            return Advantages(stream.reward_T, stream.reward_T)


def test_an_estimator_may_return_a_plain_pair_and_nothing_of_another_shape() -> None:
    register_advantage("pair")(lambda stream: (stream.reward_T, stream.reward_T))
    assert get_advantage("pair")(STREAM).advantages_T.tolist() == [1.0, 2.0]
    wrong = {
        "of_episodes": lambda stream: (stream.scores_E, stream.scores_E),
        "alone": lambda stream: stream.reward_T,
        "one_number": lambda stream: (stream.reward_T, 0.0),
    }
    for name, function in wrong.items():
        register_advantage(name)(function)  # type: ignore[arg-type]
        with pytest.raises(StreamError, match=f"'{name}' must return advantages and returns.* 2 s"):
            get_advantage(name)(STREAM)


def test_a_policy_loss_returns_one_loss_for_each_token_that_can_be_learned_from() -> None:
    inputs = PolicyInputs(
        log_prob_T=torch.zeros(2, requires_grad=True),
        old_log_prob_T=torch.zeros(2),
        advantages_T=torch.ones(2),
        lengths_E=torch.tensor([2]),
    )
    wrong = {
        "nothing": lambda inputs: None,
        "a_tensor": lambda inputs: -inputs.log_prob_T,
        "the_mean": lambda inputs: TokenLoss(-inputs.log_prob_T.mean(), {}),
        "one_token": lambda inputs: TokenLoss(-inputs.log_prob_T[:1], {}),
        "a_number": lambda inputs: TokenLoss(-inputs.log_prob_T, {"loss/mine": 1.0}),
    }
    for name, function in wrong.items():
        register_policy_loss(name)(function)  # type: ignore[arg-type]
        with pytest.raises(StreamError, match=f"'{name}' must return a TokenLoss.* 2 sampled"):
            get_policy_loss(name)(inputs)
    register_policy_loss("still")(lambda inputs: TokenLoss(-inputs.log_prob_T.detach(), {}))
    with pytest.raises(StreamError, match="'still' must return a loss that depends on"):
        get_policy_loss("still")(inputs)
