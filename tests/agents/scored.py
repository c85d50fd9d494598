"""Short episodes for reward functions to score."""

from llm_gym.episodes import Trajectory


def episode(rewards=(0.25, 0.5), **fields):
    n = len(rewards)
    return Trajectory(
        states=["s"] * (n + 1),
        actions=["a"] * n,
        rewards=list(rewards),
        dones=[False] * n,
        **fields,
    )


def batch(count=4):
    return [episode(episode_id=n, seed=100 + n) for n in range(count)]
