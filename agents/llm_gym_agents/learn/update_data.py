"""The forms in which an update hands its batch on: to the estimator, and to each pass.

Shapes: T sampled tokens of all episodes, E episodes.
"""

from __future__ import annotations

from tensordict import TensorDict
from torch import Tensor

from llm_gym_agents import algo
from llm_gym_agents.batch.pack import Pack
from llm_gym_agents.batch.ppo_batch import PPOBatch
from llm_gym_agents.batch.rollout_data import RolloutData
from llm_gym_agents.learn.scores import Scores


def micro_batch(pack: Pack, batch: TensorDict, weights_T: Tensor) -> PPOBatch:
    """Return what one forward and backward pass reads: a pack, and what is known of its tokens."""
    device = pack.ids_S.device
    own = batch[pack.index_T]
    return PPOBatch(
        **{name: own[name].to(device, non_blocking=True) for name in own.keys()},  # noqa: SIM118
        ids=pack.ids_S,
        sequence_lengths=pack.sequence_lengths_Q,
        position=pack.position_T,
        token=pack.token_T,
        lengths=pack.lengths_M,
        loss_weight=weights_T[pack.index_T].to(device, non_blocking=True),
        batch_size=[],
    )


def token_stream(
    data: RolloutData, reward_T: Tensor, scores: Scores, greedy_scores_E: Tensor | None
) -> algo.TokenStream:
    """Return what the estimator of advantages reads."""
    has_critic = scores.value_T is not None
    return algo.TokenStream(
        reward_T=reward_T,
        lengths_E=data.lengths_E,
        value_T=scores.value_T,
        turn_ends_T=data.turn_ends_T,
        terminated_E=data.terminated_E if has_critic else None,
        bootstrap_E=scores.bootstrap_E,
        group_E=data.group_E,
        greedy_scores_E=None if greedy_scores_E is None else greedy_scores_E.to(reward_T.device),
    )
