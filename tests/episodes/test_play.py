"""``play_episode``, and what it records."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from llm_gym.core.errors import ActionTypeError, ContractError
from llm_gym.core.legacy import SimpleGameEnvironment
from llm_gym.core.outcome import StopReason
from llm_gym.episodes import Opaque, Trajectory, play_episode
from llm_gym.wrappers import TokenBudget
from tests.episodes.small import reread


def test_a_played_episode_records_spec_seed_options_and_moves() -> None:
    env = gym.make("llm_gym/GuessTheNumber-v0", low=1, high=3, max_turns=2)
    episode = play_episode(env, lambda observation: "no idea", seed=5, options={"difficulty": 0.0})
    assert episode.env_id == "llm_gym/GuessTheNumber-v0"
    assert episode.env_spec is not None
    assert episode.env_spec["kwargs"] == {"low": 1, "high": 3, "max_turns": 2}
    assert episode.instance_id == env.get_wrapper_attr("instance_id")()
    assert episode.seed == 5
    assert episode.options == {"difficulty": 0.0}
    assert episode.reset_info is not None
    assert episode.reset_info["turn"] == 0
    assert episode.stop_reason is StopReason.LOST
    assert episode.dones == episode.terminated == [False, False, False, True]
    assert len(episode.states) == episode.num_turns + 1
    assert [terms["success"] for terms in episode.reward_terms] == [0.0] * 4
    assert episode.moves == ["no idea"] * 4, "how the environment read each action"
    assert reread(episode) == episode


def test_the_split_is_part_of_the_record() -> None:
    assert Trajectory(options={"split": "test"}).split == "test"
    assert Trajectory().split is None


def test_the_messages_run_from_the_system_prompt_to_the_last_observation() -> None:
    env = gym.make("llm_gym/GuessTheNumber-v0", rules="system", max_turns=1)
    episode = play_episode(env, lambda observation: "99", seed=0)
    roles = [message["role"] for message in episode.messages]
    assert roles == ["system", "user", "assistant", "user"]
    assert "whole number from 1 to 20" in episode.messages[0]["content"]
    assert episode.messages[-1]["content"] == episode.final_state
    plain = play_episode(gym.make("llm_gym/GuessTheNumber-v0"), lambda observation: "7", seed=0)
    assert plain.messages[0]["role"] == "user", "an empty system prompt is no message"


def test_gymnasiums_time_limit_is_recorded_as_a_truncation() -> None:
    env = TimeLimit(gym.make("llm_gym/GuessTheNumber-v0", max_turns=9), max_episode_steps=2)
    episode = play_episode(env, lambda observation: "no idea")
    assert episode.truncated == [False, True]
    assert episode.stop_reason is StopReason.MAX_STEPS


def test_an_old_style_environment_is_adapted_silently() -> None:
    game = SimpleGameEnvironment({"max_steps": 2})
    episode = play_episode(game, lambda observation: "dance", seed=0)
    assert episode.env_id == "llm_gym.core.legacy:SimpleGameEnvironment"
    assert episode.env_spec is None
    assert episode.messages[0] == {"role": "system", "content": game.get_prompt_prefix()}
    assert episode.stop_reason is StopReason.LOST
    assert reread(episode) == episode


def test_a_spec_that_json_cannot_hold_is_recorded_by_its_repr() -> None:
    env = TokenBudget(gym.make("llm_gym/GuessTheNumber-v0", high=9), 1, len)
    episode = reread(play_episode(env, lambda observation: "no idea", seed=0))
    assert episode.env_spec is not None
    assert episode.env_spec["id"] == "llm_gym/GuessTheNumber-v0"
    assert episode.env_spec["kwargs"] == {"high": 9}
    limits = episode.env_spec["additional_wrappers"][-1]
    assert limits["kwargs"] == {"max_tokens": 1, "count_tokens": Opaque("<built-in function len>")}
    assert episode.stop_reason is StopReason.TOKENS


class Parrot(gym.Env[Any, Any]):
    """Reports its move in the info, and sets both end flags."""

    observation: Any = "hello"

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation, {}

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return action, np.float32(0.5), np.bool_(True), True, {"move": action.strip()}  # type: ignore[return-value]


def test_a_move_that_the_environment_reports_is_recorded() -> None:
    episode = play_episode(Parrot(), lambda observation: " polly ")
    assert episode.moves == ["polly"]
    assert episode.env_id == f"{__name__}:Parrot"
    assert (episode.terminated, episode.truncated) == ([True], [False]), "an end is no cut as well"
    assert episode.stop_reason is StopReason.FINISHED
    assert reread(episode) == episode


def test_only_text_is_accepted_and_a_policys_exception_is_raised() -> None:
    env = Parrot()
    env.observation = np.zeros(2)
    with pytest.raises(ContractError, match="ndarray"):
        play_episode(env, lambda observation: "x")
    with pytest.raises(ActionTypeError, match="list"):
        play_episode(Parrot(), lambda observation: [1, 2])  # type: ignore[arg-type,return-value]

    def broken(observation: str) -> str:
        raise KeyError("no model")

    with pytest.raises(KeyError, match="no model"):
        play_episode(Parrot(), broken)
