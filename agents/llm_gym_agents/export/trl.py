"""TRL's ``GRPOTrainer`` (1.16) on llm_gym environments, in both of its ways.

``TRLGame`` plays whole episodes with plain replies: give ``rollout_func``, ``reward_func`` and
``dataset()`` to the trainer. ``environment_factory`` is for models that call tools: a move is a
call of ``play``.
"""

import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

from llm_gym.core.errors import ConfigError
from llm_gym.core.settings import check_range
from llm_gym_agents.export.episodes import EpisodeChat, TokenEpisode, as_dataset, prompt_rows
from llm_gym_agents.text.chat import ChatFormat


class TRLGame:
    """An environment for ``rollout_func``.

    A prompt is the start of an episode; every completion is a whole episode of the same seed, with
    alternating replies and observations and ``env_mask`` 1 on the model's tokens. Sampled tokens
    are never tokenised again. An episode is truncated after the turn that reaches TRL's
    ``max_completion_length``, so it may exceed this by one reply and one observation.
    """

    def __init__(self, env_id: str, *, max_turns: int = 16, **kwargs: Any) -> None:
        check_range("max_turns", max_turns, 1)
        self.env_id, self.max_turns, self._kwargs = env_id, max_turns, kwargs
        self._format: ChatFormat | None = None

    def dataset(self, seeds: Iterable[int]) -> Any:
        """Return the ``train_dataset``: the first prompt of each of ``seeds``."""
        return as_dataset(prompt_rows(self.env_id, seeds, **self._kwargs))

    def rollout_func(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """Play an episode for each prompt, all episodes turn by turn."""
        if self._format is None:
            self._format = ChatFormat.from_tokenizer(trainer.processing_class)
        with ExitStack() as opened:
            rows = [
                TokenEpisode(
                    opened.enter_context(self._chat(prompt)), self._format, prompt[-1]["seed"]
                )
                for prompt in prompts
            ]
            self._play(rows, trainer)
        logprobs = [row.logprobs for row in rows]
        return {
            "prompt_ids": [row.prompt for row in rows],
            "completion_ids": [row.completion for row in rows],
            "logprobs": None if None in logprobs else logprobs,
            "env_mask": [row.mask for row in rows],
            "env_reward": [row.chat.reward for row in rows],
            "env_success": [row.chat.success for row in rows],
            "env_turns": [row.chat.turns for row in rows],
        }

    def reward_func(self, env_reward: Sequence[float], **_: Any) -> list[float]:
        """Return the returns of the episodes, as the trainer's reward function."""
        return [float(reward) for reward in env_reward]

    def _play(self, rows: Sequence[TokenEpisode], trainer: Any) -> None:
        for _ in range(self.max_turns):
            playing = [row for row in rows if not row.is_over(trainer.max_completion_length)]
            if not playing:
                break
            # TRL's own generation, whatever engine it uses.
            replies, logprobs = trainer._generate_single_turn(
                [row.ids for row in playing], None, {}, 1
            )
            for at, row in enumerate(playing):
                row.take(list(replies[at]), None if logprobs is None else list(logprobs[at]))

    def _chat(self, prompt: Any) -> EpisodeChat:
        if isinstance(prompt, str) or prompt[-1].get("seed") is None:
            raise ConfigError("a prompt must come from dataset(), which notes its seed")
        return EpisodeChat(self.env_id, **self._kwargs)


def environment_factory(env_id: str, **kwargs: Any) -> Callable[[], Any]:
    """Return the ``environment_factory`` of an environment: a class with one tool, ``play``.

    The class returns its own rewards (``get_reward``), so no ``reward_funcs`` are needed. Without a
    column ``seed`` in ``train_dataset``, episodes are random.
    """

    class Game:
        """A text environment of llm-gym."""

        def __init__(self) -> None:
            self._chat = EpisodeChat(env_id, **kwargs)
            # TRL would take a public ``close`` for a tool, and never calls one.
            weakref.finalize(self, self._chat.close)

        def reset(self, seed: int | None = None, **_: Any) -> str:
            messages = self._chat.begin(seed)
            return "\n\n".join(message["content"] for message in messages)

        def play(self, move: str) -> str:
            """Play one move of the game and see what happens.

            Args:
                move: The move, in the format of the rules.

            Returns:
                What the game says.
            """
            return self._chat.answer(move)

        def get_reward(self) -> float:
            return self._chat.reward

    return Game
