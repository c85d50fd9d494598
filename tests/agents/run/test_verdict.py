"""A run that hardly gained anything is told so, with numbers, and with what would help."""

from types import SimpleNamespace

import pytest

from llm_gym.evaluate.result import Evaluation
from llm_gym_agents.run.diagnostics import final_diagnosis


def played(env_id, wins, of=100, returns=None, says=True):
    """An evaluation with so many wins, or with these returns and none."""
    paid = [float(at < wins) for at in range(of)] if returns is None else returns
    told = {"stop_reason": "finished", "infos": [{"success": False} if says else {}]}
    episodes = [
        SimpleNamespace(success=at < wins, total_reward=r, **told) for at, r in enumerate(paid)
    ]
    return Evaluation(env_id, episodes, tokens=0, seconds=0.0)


def said(env_id, before, after, curve=(), **settings):
    rows = [{"eval/success": each} for each in curve]
    return final_diagnosis(played(env_id, before), played(env_id, after), rows, **settings)


@pytest.mark.parametrize(("before", "after"), [(5, 25), (0, 99), (89, 92), (100, 100)])
def test_a_run_that_gained_enough_or_is_good_is_left_alone(before, after):
    assert said("llm_gym/MazeEasy-v0", before, after) is None


def test_the_solvers_score_is_as_good_as_it_gets():
    sentence = said("llm_gym/Blackjack-v0", 30, 41)
    assert sentence == ("success is 41% and a solver's is 43%: there is nothing left to learn here")


def test_what_never_won_is_said_with_the_solver_that_could_be_imitated():
    sentence = said("llm_gym/TextToSQLEasy-v0", 0, 0, embedded=True)
    assert "none of 100 held-out episodes is won, before or after (a solver wins 100%)" in sentence
    assert "--warm-start.player solver" in sentence
    assert "--model.model-name" in sentence
    assert "--model.model-name" not in said("llm_gym/TextToSQLEasy-v0", 0, 0)


def test_who_has_imitated_the_solver_is_not_sent_to_it_again():
    before, after = played("llm_gym/TextToSQLEasy-v0", 10), played("llm_gym/TextToSQLEasy-v0", 20)
    sentence = final_diagnosis(before, after, [{"warm_start/from_solver": 1.0}, {}])
    assert "imitate the solver for longer (--warm-start.steps)" in sentence
    assert "--warm-start.player" not in sentence


def test_what_is_learned_by_heart_is_told_apart_from_what_is_learned():
    sums = "llm_gym/ChainSumEasy-v0"
    rows = [{"episode/success": 0.02}] * 30 + [{"episode/success": 0.22}] * 5
    sentence = final_diagnosis(played(sums, 8), played(sums, 10), rows)
    assert "10% (a solver wins 100%), but 22% of what it trains on is won, so it learns" in sentence
    assert "heart" not in final_diagnosis(played(sums, 8), played(sums, 15), rows)
    assert "heart" not in final_diagnosis(played(sums, 8), played(sums, 10), [])


def test_an_easier_level_is_named_where_there_is_one():
    assert "llm_gym/SokobanEasy-v0" in said("llm_gym/SokobanHard-v0", 0, 1)
    assert "level" not in said("llm_gym/SokobanEasy-v0", 2, 3)


def test_a_curve_that_still_rises_asks_for_more_time_and_a_flat_one_does_not():
    rising = [0.0, 0.0, 0.02, 0.03, 0.1, 0.15]
    assert "num-epochs" in said("llm_gym/MazeEasy-v0", 0, 15, rising)
    assert "num-epochs" not in said("llm_gym/MazeEasy-v0", 0, 15, [0.15] * 6)


def test_an_environment_that_nobody_wins_is_judged_by_what_it_pays():
    def cart(turns):
        return played("CartPole-v1", 0, returns=[turns + at % 5 for at in range(100)])

    assert final_diagnosis(cart(20.0), cart(60.0), []) is None
    assert "none of 100" in final_diagnosis(cart(20.0), cart(20.5), [])


def test_less_is_paid_for_less_even_below_zero():
    def cliff(cost):
        return played("CliffWalking-v1", 0, returns=[-cost - at % 5 for at in range(100)])

    assert final_diagnosis(cliff(600.0), cliff(64.0), []) is None
    assert final_diagnosis(cliff(64.0), cliff(600.0), []) is not None


def test_where_nobody_says_what_success_is_the_return_is_told_and_no_model_is_blamed():
    before, after = (played("My/Env-v0", 0, returns=[r] * 9, says=False) for r in (1.0, 1.25))
    sentence = final_diagnosis(before, after, [], embedded=True)
    assert "does not say whether an episode is won" in sentence
    assert "from 1 to 1.25" in sentence
    assert "success=module:function" in sentence
    assert "--model.model-name" not in sentence
