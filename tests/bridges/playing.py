"""What the tests of every bridge do: a hundred random steps, again, and beside somebody else."""

STEPS = 100


def play(env, seed=0, steps=STEPS, between=lambda: None):
    """Take ``steps`` random steps in episodes that follow from ``seed``; return all that was said.

    >>> import gymnasium as gym, llm_gym
    >>> len(play(gym.make("llm_gym/Echo-v0").unwrapped, steps=5)) >= 6
    True
    """
    said = [env.reset(seed=seed)]
    over = False
    for _ in range(steps):
        between()
        if over:
            said.append(env.reset())
        said.append(env.step(env.random_action()))
        over = said[-1][2] or said[-1][3]
        for info in (said[-1][-1],):
            assert said[-1][2] + said[-1][3] <= 1
            assert info["success"] in (True, False)
            assert sum(info["reward_terms"].values()) == said[-1][1]
    return said


def check_steps(make, steps=STEPS):
    """A hundred random steps: the same again with others in between, and in another environment."""
    env, other = make(), make()
    alone = play(env, seed=3, steps=steps)
    state = {"over": True}

    def disturb():
        if state["over"]:
            other.reset(seed=99)
        _, _, terminated, truncated, _ = other.step(other.random_action())
        state["over"] = terminated or truncated

    assert play(env, seed=3, steps=steps, between=disturb) == alone
    assert play(other, seed=3, steps=steps) == alone
    env.close()
    other.close()
    return alone
