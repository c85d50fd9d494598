"""The estimators and losses of token-level RL for language models.

Everything reads one flat stream of sampled tokens (``TokenStream``, ``PolicyInputs``), so no
result depends on padding, observations or micro-batches. Start with ``get_advantage`` and
``TokenObjective``; the ``compute_*`` functions are the same algorithms on padded rows.
"""

from llm_gym_agents.algo.advantages.gae import gae, gae_turn
from llm_gym_agents.algo.advantages.groups import group_ids
from llm_gym_agents.algo.advantages.reinforce import rewards_to_go
from llm_gym_agents.algo.advantages.states import gigpo, state_td, vine
from llm_gym_agents.algo.losses.aggregate import (
    AGGREGATIONS,
    Aggregation,
    BatchCounts,
    aggregate_loss,
    token_weights,
)
from llm_gym_agents.algo.losses.kl import KLController, kl_in_rewards, kl_loss
from llm_gym_agents.algo.losses.mismatch import check_numbers, importance_weights, mismatch_metrics
from llm_gym_agents.algo.losses.objective import TokenObjective, make_clip_ppo_loss, value_loss
from llm_gym_agents.algo.losses.policy_loss import (
    POLICY_LOSSES,
    PolicyInputs,
    TokenLoss,
    get_policy_loss,
    register_policy_loss,
)
from llm_gym_agents.algo.padded import (
    PaddedRows,
    apply_kl_penalty,
    compute_advantage,
    compute_gae_advantage_return,
    compute_grpo_advantage,
    compute_policy_loss,
    compute_value_loss,
)
from llm_gym_agents.algo.registry import (
    ADVANTAGES,
    Advantages,
    AdvantageSpec,
    get_advantage,
    register_advantage,
)
from llm_gym_agents.algo.stream import TokenStream
from llm_gym_agents.algo.tensor_ops import StreamError

__all__ = [
    "ADVANTAGES",
    "AGGREGATIONS",
    "POLICY_LOSSES",
    "AdvantageSpec",
    "Advantages",
    "Aggregation",
    "BatchCounts",
    "KLController",
    "PaddedRows",
    "PolicyInputs",
    "StreamError",
    "TokenLoss",
    "TokenObjective",
    "TokenStream",
    "aggregate_loss",
    "apply_kl_penalty",
    "check_numbers",
    "compute_advantage",
    "compute_gae_advantage_return",
    "compute_grpo_advantage",
    "compute_policy_loss",
    "compute_value_loss",
    "gae",
    "gae_turn",
    "get_advantage",
    "get_policy_loss",
    "gigpo",
    "group_ids",
    "importance_weights",
    "kl_in_rewards",
    "kl_loss",
    "make_clip_ppo_loss",
    "mismatch_metrics",
    "register_advantage",
    "register_policy_loss",
    "rewards_to_go",
    "state_td",
    "token_weights",
    "value_loss",
    "vine",
]
