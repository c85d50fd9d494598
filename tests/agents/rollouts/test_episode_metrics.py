"""What a batch of episodes says of itself, in numbers that can be counted by hand."""

from llm_gym_agents.rollouts.evaluation import episode_metrics
from llm_gym_agents.rollouts.turns import Rollout, Turn
from tests.agents.scored import episode


def played(rewards, group, stop="won", infos=(), finishes=("stop", "stop")):
    """Return an episode with a turn for each reward, and those turns of two tokens."""
    made = episode(rewards, group=group, infos=list(infos))
    made.stop_reason, made.success = stop, stop == "won"
    turns = [
        Turn(0, at, [1], [2, 3], [0.0, 0.0], finish, 0)
        for at, finish in zip(range(len(rewards)), finishes, strict=False)
    ]
    return made, turns


def rollout(*pairs, unplayed=()):
    episodes, turns = zip(*pairs, strict=True)
    return Rollout(list(episodes), list(turns), [None] * len(pairs), list(unplayed), [])


def test_every_figure_is_a_mean_over_episodes_replies_or_groups():
    usable, unusable = ({"valid_action": flag} for flag in (True, False))
    paid = {"valid_action": True, "reward_terms": {"bonus": 0.5}}
    row = episode_metrics(
        rollout(
            played([1.0], 7, infos=[paid]),
            played([0.0, 1.0], 7, infos=[unusable, paid]),
            played([0.0, 0.0], 8, "context", [usable, usable], ("length", "stop")),
            played([4.0], 9, "lost"),
            unplayed=[episode()],
        )
    )
    assert row == {
        "episode/success": 0.5,
        "reward/mean": 1.5,
        "episode/turns": 1.5,
        "episode/tokens": 3.0,
        "episode/unplayed": 1.0,
        "episode/context_full": 0.25,
        "episode/cut_replies": 1 / 6,
        "reward/std": 1.5,
        "group/no_spread": 1.0,
        "episode/invalid": 0.2,
        "reward/bonus": 0.25,
    }


def test_a_group_of_one_says_nothing_about_spread():
    assert "group/no_spread" not in episode_metrics(rollout(played([1.0], 1), played([0.0], 2)))
    spread = rollout(played([1.0], 1), played([0.0], 1), played([1.0], 2), played([1.0], 2))
    assert episode_metrics(spread)["group/no_spread"] == 0.5


def test_what_an_environment_does_not_say_is_left_out():
    assert "episode/invalid" not in episode_metrics(rollout(played([1.0], 1)))
