"""``RolloutData``: the sampled tokens of a batch of episodes and what the model read, packed.

A *sequence* is what the model reads at once: a whole episode in history context, one turn in
observation context. A truncated episode has one more position, from which it is bootstrapped.
Sequences lie one after another in ``ids``; nothing is padded. ``assemble`` makes it from a rollout.

Shapes: S ids of all sequences, Q sequences, T sampled tokens, K turns, E episodes.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import torch
from tensordict import TensorClass
from torch import Tensor

from llm_gym.core.errors import ConfigError
from llm_gym.core.infos import flag
from llm_gym.episodes import Trajectory
from llm_gym_agents.algo.tensor_ops import spread
from llm_gym_agents.engines.base import FinishReason
from llm_gym_agents.rollouts.mix import by_env
from llm_gym_agents.rollouts.tasks import Rollout, Turn

NO_POSITION = -1
STATE_FIELDS = ("state_K", "potential_K", "branch_state_B", "branch_return_B", "branch_turn_B")
"""The fields for estimators that use states; see ``TokenStream``."""


class RolloutData(TensorClass):
    """Episodes in id order, their turns in order, their sampled tokens in order."""

    ids_S: Tensor
    sequence_lengths_Q: Tensor
    position_T: Tensor
    """Index into ``ids_S`` of the position that predicts each sampled token."""
    token_T: Tensor
    """The sampled ids."""
    sampler_log_prob_T: Tensor
    version_T: Tensor
    """Version of the weights that sampled each token."""
    turn_ends_T: Tensor
    """True on the last sampled token of each turn."""
    reward_T: Tensor
    """A turn's reward, on its last sampled token."""
    lengths_E: Tensor
    """Sampled tokens of each episode."""
    sequences_E: Tensor
    """Sequences of each episode."""
    terminated_E: Tensor
    bootstrap_E: Tensor
    """Index into ``ids_S`` where a truncated episode is bootstrapped, else ``NO_POSITION``."""
    group_E: Tensor
    episode_E: Tensor
    env_E: Tensor | None = None
    """Number of each episode's environment; None if all have one."""
    truncated_reply_E: Tensor | None = None
    """Whether a reply of each episode hit the token limit; None if unknown."""
    unusable_T: Tensor | None = None
    """True on the last sampled token of each reply that the environment could not use."""
    # ``STATE_FIELDS``
    state_K: Tensor | None = None
    potential_K: Tensor | None = None
    branch_state_B: Tensor | None = None
    branch_return_B: Tensor | None = None
    branch_turn_B: Tensor | None = None

    @property
    def tokens(self) -> int:
        return self.token_T.numel()


def assemble(rollout: Rollout) -> RolloutData:
    """Return the tensors of a rollout, whose rewards must be final.

    Every episode must have at least one turn and one reward per turn: a reward without a token
    would be lost.
    """
    episodes = rollout.episodes
    env_ids = list(by_env(episodes))
    packed, lengths, sequences, bootstraps = SequencePacker(), [], [], []
    for turns, closing, episode in zip(
        rollout.turns, rollout.bootstrap_prompts, episodes, strict=True
    ):
        _check(turns, episode)
        tokens, before = len(packed.tokens), len(packed.lengths)
        for turn in turns:
            packed.read(turn.prompt_ids, new_sequence=turn.new_sequence)
            packed.learn(turn.reply_ids)
        bootstraps.append(NO_POSITION)
        if closing is not None:
            packed.read(closing.ids, new_sequence=closing.new_sequence)
            bootstraps[-1] = len(packed.ids) - 1
        lengths.append(len(packed.tokens) - tokens)
        sequences.append(len(packed.lengths) - before)
    return RolloutData(
        **packed.inputs()._asdict(),
        **_of_turns(rollout.turns, episodes),
        lengths_E=int_tensor(lengths),
        sequences_E=int_tensor(sequences),
        # Only truncated episodes have a prompt to bootstrap from.
        terminated_E=torch.tensor(
            [each is None for each in rollout.bootstrap_prompts], dtype=torch.bool
        ),
        bootstrap_E=int_tensor(bootstraps),
        group_E=int_tensor(int(episode.group or 0) for episode in episodes),
        episode_E=int_tensor(int(episode.episode_id or 0) for episode in episodes),
        env_E=int_tensor([env_ids.index(str(episode.env_id)) for episode in episodes])
        if len(env_ids) > 1
        else None,
        truncated_reply_E=torch.tensor(
            [any(turn.finish == FinishReason.LENGTH for turn in own) for own in rollout.turns],
            dtype=torch.bool,
        ),
        batch_size=[],
    )


def _of_turns(turns: Sequence[Sequence[Turn]], episodes: Sequence[Trajectory]) -> dict[str, Tensor]:
    """Return the fields per token; a turn's reward sits on its last token."""
    flat = list(chain.from_iterable(turns))
    counts_K = int_tensor(len(turn.reply_ids) for turn in flat)
    tokens = int(counts_K.sum())
    turn_ends_T = torch.zeros(tokens, dtype=torch.bool)
    turn_ends_T[counts_K.cumsum(0) - 1] = True
    reward_T = torch.zeros(tokens)
    rewards = [reward for episode in episodes for reward in episode.rewards]
    reward_T[turn_ends_T] = torch.tensor(rewards, dtype=torch.float32)
    unusable_T = torch.zeros(tokens, dtype=torch.bool)
    unusable = [
        flag(info, "valid_action") is False
        for episode in episodes
        for info in episode.infos or [{}] * len(episode.rewards)
    ]
    unusable_T[turn_ends_T] = torch.tensor(unusable, dtype=torch.bool)
    log_probs = [log_prob for turn in flat for log_prob in turn.log_probs]
    return {
        "sampler_log_prob_T": torch.tensor(log_probs, dtype=torch.float32),
        "version_T": spread(int_tensor(turn.version for turn in flat), counts_K),
        "turn_ends_T": turn_ends_T,
        "reward_T": reward_T,
        "unusable_T": unusable_T,
    }


def _check(turns: Sequence[Turn], episode: Trajectory) -> None:
    if len(turns) != len(episode.rewards) or not turns:
        raise ConfigError(
            f"episode {episode.episode_id} must have one reward per sampled turn, got "
            f"{len(episode.rewards)} rewards for {len(turns)} turns"
        )
    if [turn.number for turn in turns] != list(range(len(turns))):
        raise ConfigError(f"the turns of episode {episode.episode_id} are not in order")


class PackedInputs(NamedTuple):
    """What ``PolicyValueModel`` reads, in its order."""

    ids_S: Tensor
    sequence_lengths_Q: Tensor
    position_T: Tensor
    token_T: Tensor


class SequencePacker:
    """Packs sequences of token ids and marks those that are learned.

    >>> packed = SequencePacker()
    >>> packed.read([1, 2], new_sequence=True)
    >>> packed.learn([3])
    >>> packed.positions, packed.tokens  # the id at place 1 is the last one before the token
    ([1], [3])
    """

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.lengths: list[int] = []
        """Ids of each sequence."""
        self.positions: list[int] = []
        """Index into ``ids`` of the position that predicts each learned token."""
        self.tokens: list[int] = []
        """The learned tokens."""

    def read(self, ids: Sequence[int], *, new_sequence: bool = False) -> None:
        """Append ids to the last sequence, or start a new one."""
        if new_sequence:
            self.lengths.append(0)
        self.lengths[-1] += len(ids)
        self.ids += ids

    def learn(self, ids: Sequence[int], targets: Sequence[int] | None = None) -> None:
        """Append ids and mark them as learned, with ``targets`` as labels if given."""
        learned = ids if targets is None else targets
        last = len(self.ids) - 1
        self.positions += range(last, last + len(learned))
        self.tokens += learned
        self.read(ids)

    def inputs(self) -> PackedInputs:
        lists = (self.ids, self.lengths, self.positions, self.tokens)
        return PackedInputs(*map(int_tensor, lists))


def int_tensor(numbers: Iterable[int]) -> Tensor:
    """Return an int64 vector, even for an empty list."""
    return torch.tensor(list(numbers), dtype=torch.int64)
