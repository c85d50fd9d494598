"""Advantages from the reward-to-go of each token, without a critic.

Without a critic, a truncated episode cannot be bootstrapped, so its return ends where it was cut.

Shapes: T sampled tokens of all episodes, E episodes.
"""

from torch import Tensor

from llm_gym.core.settings import check_range
from llm_gym_agents.algo.advantages.gae import Discount, decayed_sums, step_factor
from llm_gym_agents.algo.registry import Advantages, register_advantage
from llm_gym_agents.algo.stream import TokenStream
from llm_gym_agents.algo.tensor_ops import result_dtype, standardize, widen


@register_advantage("reinforce_plus_plus")
def reinforce_plus_plus(
    stream: TokenStream, *, gamma: float = 1.0, discount: Discount = "token", whiten: bool = True
) -> Advantages:
    """The discounted reward-to-go of each token, whitened over the batch."""
    check_range("gamma", gamma, 0, 1)
    returns_T = rewards_to_go(stream, step_factor(stream, gamma, discount))
    advantages_T = standardize(returns_T) if whiten else returns_T
    dtype = result_dtype(stream.reward_T)
    return Advantages(advantages_T.to(dtype), returns_T.to(dtype))


def rewards_to_go(stream: TokenStream, gamma_T: Tensor) -> Tensor:
    """The sum of each token's reward and the discounted rewards after it in its episode."""
    return decayed_sums(stream, widen(stream.reward_T), gamma_T)
