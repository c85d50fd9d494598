"""AsText: a text that cannot be used is answered, and cannot be made to pay."""

import gymnasium as gym
import pytest
from gymnasium.error import ResetNeeded

from llm_gym.core.errors import ConfigError
from llm_gym.core.outcome import StopReason
from llm_gym.wrappers import AsText, MaxInvalid
from tests.wrappers.as_text.plain_envs import NONSENSE, Corridor, started


@pytest.mark.parametrize(
    ("settings", "ending", "steps", "terms"),
    [
        ({}, " I play stay for you.", [1], {"reward": 0.0}),
        ({"invalid": "feedback"}, "", [], {}),
        ({"invalid": "feedback", "penalty": 0.25}, "", [], {"invalid": -0.25}),
    ],
)
def test_an_unusable_text_is_answered_and_the_fallback_is_played(settings, ending, steps, terms):
    env = started(rules="system", **settings)
    text, reward, terminated, truncated, info = env.step(NONSENSE)
    assert text == f"Your move must be one of: go left, stay, go right.{ending}\n0"
    assert (reward, terminated, truncated) == (sum(terms.values()), False, False)
    assert (env.unwrapped.steps, info["reward_terms"]) == (steps, terms)
    assert (info["valid_action"], info["invalid_actions"], info["turn"]) == (False, 1, 1)
    assert (info["move"], info.get("fallback")) == (NONSENSE, "stay" if steps else None)
    assert ("For an unusable reply I play stay" in env.system_prompt) == bool(steps)
    assert ("costs 0.25 points" in env.system_prompt) == ("penalty" in settings)


def test_rewards_and_wins_of_the_fallback_do_not_count():
    env = started(Corridor({"is_success": True}), fallback="go right")
    *_, last = [env.step(NONSENSE) for _ in range(4)]
    _, reward, terminated, _, info = last
    assert (reward, terminated, info["reward_terms"]) == (0.0, True, {"reward": 0.0})
    assert (info["success"], info["stop_reason"]) == (False, StopReason.LOST)
    assert "is_success" not in info


def total(env, act, turns=1000):
    """Play to the end, or so many turns; return the sum of rewards and the last info."""
    rewards, done = [], False
    while not done and len(rewards) < turns:
        _, reward, terminated, truncated, info = env.step(act())
        rewards.append(reward)
        assert reward == pytest.approx(sum(info["reward_terms"].values()))
        done = terminated or truncated
    return sum(rewards), info


@pytest.mark.parametrize(
    ("env_id", "least", "most"),
    [
        # As much as playing, and nothing where time is paid.
        ("MountainCar-v0", -200.0, -200.0), ("Acrobot-v1", -500.0, -500.0),
        ("Taxi-v4", -200.0, -200.0), ("CartPole-v1", 0.0, 0.0), ("FrozenLake-v1", 0.0, 0.0),
        ("Blackjack-v1", -1.0, 0.0),
    ],
)  # fmt: skip
def test_unusable_replies_cost_as_much_as_playing(env_id, least, most):
    env = AsText(gym.make(env_id))
    for seed in range(3):
        env.reset(seed=seed)
        paid, info = total(env, lambda: NONSENSE)
        assert least <= paid <= most
        assert not info.get("success")


def test_without_a_fallback_an_unusable_reply_costs_the_worst_step():
    env = started(gym.make("MountainCar-v0"), invalid="feedback")
    assert env.step(NONSENSE)[1] == 0.0, "no step has been seen yet"
    env.step("push left")
    assert env.step(NONSENSE)[1] == -1.0
    assert env.step(NONSENSE)[4]["reward_terms"] == {"invalid": -1.0}
    env = started(gym.make("MountainCar-v0"), max_invalid=1)
    assert env.step(NONSENSE)[4]["success"] is False  # a return of 0 is above its threshold


@pytest.mark.parametrize(
    ("env", "settings", "fallback"),
    [
        (Corridor(mask=True, raises=True), {}, "go right"),  # to stay is masked
        (Corridor(mask=True, raises=True), {"fallback": "stay", "masked": "play"}, "go right"),
        (Corridor(mask=True, raises=True), {"fallback": "stay", "masked": "refuse"}, "go right"),
        (None, {"fallback": "go left"}, "go left"),
    ],
)
def test_a_given_fallback_is_played_where_it_is_legal(env, settings, fallback):
    assert started(env, **settings).step(NONSENSE)[4]["fallback"] == fallback
    for wrong in ("dance", "", "\ud800"):
        with pytest.raises(ConfigError, match="fallback"):
            started(fallback=wrong)


@pytest.mark.parametrize(
    ("settings", "texts", "flags", "reason"),
    [
        ({"max_invalid": 3, "invalid": "feedback"}, "no no stay no", (False, True),
         StopReason.MAX_STEPS),
        ({"invalid": "terminate", "retries": 1}, "no no", (True, False), StopReason.INVALID),
        # Retries are given anew every turn and do not count.
        ({"retries": 1, "max_invalid": 1}, "no stay no stay no no", (False, True),
         StopReason.MAX_STEPS),
    ],
)  # fmt: skip
def test_too_many_unusable_replies_end_the_episode(settings, texts, flags, reason):
    env = started(**settings)
    *before, last = [env.step(NONSENSE if text == "no" else text) for text in texts.split()]
    assert all(step[2:4] == (False, False) for step in before)
    assert (last[2:4], last[4]["stop_reason"], last[4]["success"]) == (flags, reason, False)
    if flags[1]:
        assert last[0].endswith("\n0"), "a cut shows the state, for the value of what would follow"
    with pytest.raises(ResetNeeded):
        env.step("stay")
    rules = AsText(Corridor(), **settings).reset()[0]
    assert ("1 unusable replies per turn are forgiven" in rules) == ("retries" in settings)


class Pit(gym.Env):
    """Idle costs 1 a step and a jump costs 50; nothing ever ends it."""

    observation_space, action_space = gym.spaces.Discrete(1), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 0, -50.0 if action else -1.0, False, False, {}


@pytest.mark.parametrize("invalid", ["fallback", "feedback", "terminate"])
@pytest.mark.parametrize(
    "make", [lambda: gym.make("CliffWalking-v1"), Pit], ids=["CliffWalking", "Pit"]
)
def test_giving_up_is_worse_than_random_moves(make, invalid):
    for seed in range(3):
        env = AsText(make(), invalid=invalid)
        env.reset(seed=seed)
        given_up, info = total(env, lambda: "?!")
        env.reset(seed=seed)
        played = total(env, env.random_action, turns=500)[0]
        assert given_up < played < -500.0
        assert info["success"] is False


def test_giving_up_costs_the_same_after_other_episodes():
    first, second = AsText(Pit()), AsText(Pit())
    second.reset(seed=1)
    total(second, second.random_action, turns=50)
    paid = []
    for env in (first, second):
        env.reset(seed=0)
        paid.append(total(env, lambda: "?!")[0])
    assert paid[0] == paid[1]


def test_giving_up_has_its_price_under_max_invalid_and_parse():
    env = MaxInvalid(AsText(gym.make("MountainCar-v0"), invalid="feedback"), 2)
    env.reset(seed=0)
    assert total(env, lambda: "?!")[0] == -198.0  # 200 turns of which two were used up
    env = started(Pit(), parse=lambda move: None)
    assert total(env, lambda: "?!")[0] < -10_000.0
