"""Our names in somebody else's ``info``: what cannot be read was not said."""

import numpy as np
import pytest

from llm_gym.core.infos import reward_terms
from llm_gym.core.outcome import StopReason, stop_reason
from llm_gym.episodes import Trajectory
from llm_gym.evaluate.result import Evaluation

UNREADABLE = ["no", None, [], {"at": 1}, np.array([True, False]), np.str_("no"), len]


@pytest.mark.parametrize("said", UNREADABLE, ids=repr)
def test_a_success_that_is_no_yes_and_no_no_is_none(said):
    info = {"success": said, "valid_action": said, "reward_terms": said}
    episode = Trajectory(
        states=["?", "!"], actions=["hm"], rewards=[0.0], dones=[True], infos=[info]
    )
    assert stop_reason(True, False, info) is StopReason.FINISHED is episode.stop_reason
    assert not episode.success
    assert episode.reward_terms == [{}] or said == {"at": 1}
    result = Evaluation("theirs", [episode], 1, 1.0)
    assert result.invalid == 0.0
    assert result.unsaid == 1, "a person is told that nobody can say how it went"


@pytest.mark.parametrize("yes", [True, 1, 1.0, np.True_, np.float32(1)])
def test_numbers_and_numpys_are_a_yes(yes):
    assert stop_reason(True, False, {"success": yes}) is StopReason.WON


def test_terms_are_its_numbers_by_name():
    told = {"goal": np.float32(0.5), ("a", 1): 2, "why": "near", "each": np.ones(2), "none": None}
    assert reward_terms({"reward_terms": told}) == {"goal": 0.5, "('a', 1)": 2.0}
