"""The figures of an evaluation, in numbers that can be counted by hand."""

import pytest

from llm_gym.episodes import Trajectory
from llm_gym.evaluate.result import Evaluation


def played(rewards, stop, infos=()):
    n = len(rewards)
    made = Trajectory(
        states=["s"] * (n + 1), actions=["a"] * n, rewards=rewards, dones=[False] * n, infos=infos
    )
    made.stop_reason, made.success = stop, stop == "won"
    return made


USABLE, UNUSABLE = ({"valid_action": flag} for flag in (True, False))


@pytest.fixture
def four():
    episodes = [
        played([0.0, 1.0], "won", [UNUSABLE, USABLE]),
        played([0.5], "context", [USABLE]),
        played([0.5, 0.0, 0.0], "error", [UNUSABLE, USABLE, {}]),
        played([1.0, 1.0], "finished", [USABLE, USABLE]),
    ]
    return Evaluation("somebody/Own-v0", episodes, tokens=60, seconds=4.0)


def test_the_summary_has_means_over_episodes_and_replies(four):
    assert four.summary() == {
        "env": "somebody/Own-v0", "episodes": 4, "success": 0.25,
        "success_low": pytest.approx(0.0456, abs=1e-4),  # Wilson's interval of 1 in 4
        "success_high": pytest.approx(0.6994, abs=1e-4), "normalised": None, "return": 1.0,
        "turns": 2.0, "invalid": 0.25, "cut": 0.0, "empty": 0.0, "tokens": 60,
        "tokens_per_s": 15.0,
    }  # fmt: skip


def test_str_shows_success_scale_and_speed(four):
    assert str(four) == (
        "somebody/Own-v0: success 25.0% [4.6%, 69.9%] over 4 episodes, 2.0 turns, 25.0% of the "
        "replies unusable, 15 tokens/s"
    )
    read_again = Evaluation("llm_gym/Echo-v0", [played([1.0], "won", [USABLE])], 0, 0.0)
    assert "over 1 episodes (scale 1.00: 0 is a random player, 1 the solver), 1.0 turns" in str(
        read_again
    )
    assert str(read_again).endswith("unusable")


def test_notes_name_cut_failed_and_undecided_episodes(four):
    cut, failed, without_outcome = four.notes()
    assert cut.startswith("1 of ")
    assert failed.startswith("1 of 4 episodes failed")
    assert without_outcome.startswith("1 episodes ended without saying whether they were won")
    lost = played([1.0], "finished", [{"success": False}])
    assert Evaluation(None, [lost, four.episodes[0]], 0, 0.0).notes() == []


@pytest.mark.parametrize(("reply", "thinks"), [("go go go", False), ("<think>Hm, I", True)])
def test_only_a_cut_thought_suggests_to_turn_thinking_off(reply, thinks):
    episode = played([0.0], "lost", [UNUSABLE])
    episode.actions, episode.extra = [reply], {"finish": ["length"]}
    (note,) = Evaluation(None, [episode], 0, 0.0).problems("--limit")
    assert "--limit" in note
    assert ("thinking" in note) is thinks
