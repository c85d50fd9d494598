"""``Rollout``: which of its episodes have something after their last turn."""

from llm_gym.core.outcome import StopReason
from llm_gym_agents.rollouts.turns import BootstrapPrompt, Rollout
from tests.agents.scored import episode


def test_only_what_our_own_limit_ended_has_nothing_after_it():
    stops = [
        (StopReason.MAX_STEPS, 2),
        (StopReason.MAX_STEPS, 1),  # the environment's own limit, before ours
        (StopReason.TOKENS, 2),
    ]
    episodes = [episode([0.0] * turns) for _, turns in stops]
    for each, (stop, _) in zip(episodes, stops, strict=True):
        each.stop_reason = stop
    after = [BootstrapPrompt([at], False) for at in range(3)]
    rollout = Rollout(episodes, [[]] * 3, after, [], [])
    assert rollout.ending_after(2).bootstrap_prompts == [None, after[1], after[2]]
    assert rollout.ending_after(None).bootstrap_prompts == after
