from __future__ import annotations

import pickle

import pytest
import torch

from llm_gym.errors import ConfigError
from llm_gym_agents.algo import StreamError, TokenStream

ONE_EACH = torch.tensor([1, 1])


def test_turns_are_read_from_their_ends() -> None:
    stream = TokenStream(
        reward_T=torch.zeros(6),
        lengths_E=torch.tensor([4, 0, 2]),
        turn_ends_T=torch.tensor([0, 1, 0, 1, 0, 1]),
    )
    assert stream.turn_lengths_K.tolist() == [2, 2, 2]
    assert stream.turn_starts_K.tolist() == [0, 2, 4]
    assert stream.turns_E.tolist() == [2, 0, 1]


def test_without_turn_ends_an_episode_is_one_turn() -> None:
    stream = TokenStream(reward_T=torch.zeros(6), lengths_E=torch.tensor([4, 0, 2]))
    assert stream.turn_lengths_K.tolist() == [4, 2]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"reward_T": torch.zeros(3)}, r"reward_T must have shape \(2,\), got \(3,\)"),
        ({"value_T": torch.zeros(2, 1)}, r"value_T must have shape \(2,\), got \(2, 1\)"),
        ({"group_E": torch.zeros(1)}, r"group_E must have shape \(2,\)"),
        ({"lengths_E": torch.tensor([3, -1])}, "non-negative integers"),
        ({"lengths_E": torch.tensor([1.0, 1.0])}, "integers"),
        ({"reward_T": torch.tensor([0.0, float("nan")])}, "finite, got nan in episode 1"),
        ({"value_T": torch.tensor([float("inf"), 0.0])}, "finite, got inf in episode 0"),
        ({"turn_ends_T": torch.tensor([1, 0])}, "episode 1 with an open turn"),
        ({"bootstrap_E": torch.zeros(2)}, "bootstrap_E needs terminated_E"),
        (
            {
                "terminated_E": torch.tensor([1, 0]),
                "bootstrap_E": torch.tensor([0.0, float("nan")]),
            },
            "got nan for episode 1",
        ),
    ],
)
def test_broken_data_is_refused_in_one_sentence(
    fields: dict[str, torch.Tensor], message: str
) -> None:
    with pytest.raises(StreamError, match=message):
        TokenStream(**{"reward_T": torch.zeros(2), "lengths_E": ONE_EACH} | fields)


def test_the_error_is_a_config_error_and_pickles() -> None:
    error = pickle.loads(pickle.dumps(StreamError("a sentence")))
    assert isinstance(error, ConfigError)
    assert str(error) == "a sentence"
