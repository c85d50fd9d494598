"""Episodes become tensors: the turns of a rollout, laid out as ``RolloutData``.

Rewards are final by now: whoever wants other ones than the environment's settles them first.

Shapes: T sampled tokens, K turns, E episodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import torch
from torch import Tensor

from llm_gym.episodes import Trajectory
from llm_gym.errors import ConfigError
from llm_gym_agents.algo.segments import spread
from llm_gym_agents.batch.rollout_data import NO_POSITION, RolloutData
from llm_gym_agents.batch.sequences import Sequences, whole_numbers
from llm_gym_agents.engines.base import FinishReason
from llm_gym_agents.rollouts.turns import Rollout, Turn


def assemble(rollout: Rollout) -> RolloutData:
    """Return the tokens of the episodes that were played.

    Every episode has at least one turn, and as many turns as rewards: that is checked, because a
    reward without a token to sit on would be lost.
    """
    episodes = rollout.episodes
    packed, lengths, sequences, bootstraps = Sequences(), [], [], []
    for turns, closing, episode in zip(
        rollout.turns, rollout.bootstrap_prompts, episodes, strict=True
    ):
        _check(turns, episode)
        tokens, begun = len(packed.tokens), len(packed.lengths)
        for turn in turns:
            packed.read(turn.prompt_ids, new_sequence=turn.new_sequence)
            packed.learn(turn.reply_ids)
        bootstraps.append(NO_POSITION)
        if closing is not None:
            packed.read(closing.ids, new_sequence=closing.new_sequence)
            bootstraps[-1] = len(packed.ids) - 1
        lengths.append(len(packed.tokens) - tokens)
        sequences.append(len(packed.lengths) - begun)
    return RolloutData(
        **packed.inputs()._asdict(),
        **_of_turns(rollout.turns, episodes),
        lengths_E=whole_numbers(lengths),
        sequences_E=whole_numbers(sequences),
        # What the rules ended has no closing, and neither has what our own limits ended.
        terminated_E=torch.tensor(
            [each is None for each in rollout.bootstrap_prompts], dtype=torch.bool
        ),
        bootstrap_E=whole_numbers(bootstraps),
        group_E=whole_numbers(int(episode.group or 0) for episode in episodes),
        episode_E=whole_numbers(int(episode.episode_id or 0) for episode in episodes),
        cut_E=torch.tensor([_is_cut(turns) for turns in rollout.turns], dtype=torch.bool),
        batch_size=[],
    )


def _is_cut(turns: Sequence[Turn]) -> bool:
    return any(turn.finish == FinishReason.LENGTH for turn in turns)


def _of_turns(turns: Sequence[Sequence[Turn]], episodes: Sequence[Trajectory]) -> dict[str, Tensor]:
    """Return what each turn says of its tokens; its reward sits on the last of them."""
    flat = list(chain.from_iterable(turns))
    counts_K = whole_numbers(len(turn.reply_ids) for turn in flat)
    tokens = int(counts_K.sum())
    turn_ends_T = torch.zeros(tokens, dtype=torch.bool)
    turn_ends_T[counts_K.cumsum(0) - 1] = True
    reward_T = torch.zeros(tokens)
    reward_T[turn_ends_T] = _real(reward for episode in episodes for reward in episode.rewards)
    return {
        "sampler_log_prob_T": _real(chain.from_iterable(turn.log_probs for turn in flat)),
        "version_T": spread(whole_numbers(turn.version for turn in flat), counts_K),
        "turn_ends_T": turn_ends_T,
        "reward_T": reward_T,
    }


def _real(numbers: Iterable[float]) -> Tensor:
    return torch.tensor(list(numbers), dtype=torch.float32)


def _check(turns: Sequence[Turn], episode: Trajectory) -> None:
    if len(turns) != len(episode.rewards) or not turns:
        raise ConfigError(
            f"episode {episode.episode_id} must have one reward per sampled turn, got "
            f"{len(episode.rewards)} rewards for {len(turns)} turns"
        )
    if [turn.number for turn in turns] != list(range(len(turns))):
        raise ConfigError(f"the turns of episode {episode.episode_id} are not in order")
