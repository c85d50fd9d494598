"""Playing on by hand from a turn of a record."""

import pytest

from llm_gym.core.errors import RecordError
from llm_gym.view.api import MAX_MOVES, play_on
from tests.view.records import HOSTILE, played, with_tokens


def test_no_move_gives_the_state_before_the_turn():
    episode = played(1)
    for turn, state in enumerate(episode.states[:-1]):
        told = play_on(episode, turn, [])
        assert (told["state"], told["done"], told["note"], told["turns"]) == (state, False, "", [])


def test_the_recorded_moves_give_the_recorded_end():
    episode = played(1)
    told = play_on(episode, 1, episode.actions[1:])
    assert [turn["state"] for turn in told["turns"]] == episode.states[2:]
    assert [turn["reward"] for turn in told["turns"]] == episode.rewards[1:]
    assert told["done"]
    assert told["turns"][-1]["stop"] == episode.stop_reason


def test_another_move_leads_elsewhere_and_hostile_text_is_a_move():
    episode = played(1, high=50)
    told = play_on(episode, 1, [HOSTILE, "3"])
    assert len(told["turns"]) == 2
    assert told["turns"][0]["action"] == HOSTILE


def test_an_environment_that_answers_otherwise_now_is_noted():
    episode = played(1)
    episode.states[1] = "something else"
    assert "before turn 1 it says something else" in play_on(episode, 2, [])["note"]


@pytest.mark.parametrize(
    ("turn", "moves", "why"),
    [
        (-1, [], "turn"),
        (99, [], "turn"),
        (0, ["1"] * (MAX_MOVES + 1), "at most"),
        (0, ["1" * 20_001], "at most"),
    ],
)
def test_what_cannot_be_played_is_refused(turn, moves, why):
    with pytest.raises(RecordError, match=why):
        play_on(played(1), turn, moves)


def test_code_that_a_record_names_is_not_run(tmp_path):
    episode = played(1)
    episode.env_spec["entry_point"] = "os:system"
    episode.env_spec["kwargs"] = {"command": f"touch {tmp_path}/owned"}
    with pytest.raises(RecordError, match="registered"):
        play_on(episode, 0, [])
    assert not (tmp_path / "owned").exists()
    with pytest.raises(RecordError, match="no seed"):
        play_on(with_tokens(), 0, [])
