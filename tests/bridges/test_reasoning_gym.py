"""reasoning-gym through the bridge, with the real package: ``make test-bridges``."""

import gymnasium as gym
import pytest

from llm_gym.core.errors import ConfigError

pytest.importorskip("reasoning_gym")
pytestmark = pytest.mark.filterwarnings("ignore")
from reasoning_gym.factory import DATASETS  # noqa: E402

COMPOSITE = {"datasets": [{"name": "chain_sum", "weight": 1.0, "config": {}}]}
NO_ANSWER = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}


def make(dataset, **settings):
    if dataset == "composite":
        settings.setdefault("config", COMPOSITE)
    return gym.make("llm_gym/ReasoningGym-v0", env_id=dataset, **settings).unwrapped


@pytest.mark.parametrize("dataset", sorted(DATASETS))
def test_the_answer_of_every_data_set_scores(dataset):
    env = make(dataset)
    questions = [env.reset(seed=seed)[0] for seed in range(2)]
    assert env.reset(seed=0)[0] == questions[0]
    if dataset in NO_ANSWER:
        with pytest.raises(NotImplementedError):
            env.oracle_action()
        return
    _, reward, terminated, _, info = env.step(f"So:\n{env.oracle_action()}")
    assert terminated
    assert (reward, info["success"]) == (1.0, True)


def test_a_broken_part_of_a_composite_is_refused():
    env = make("composite", config={"datasets": [{"nam": "chain_sum"}]})
    with pytest.raises(ConfigError, match="composite cannot be built with"):
        env.reset(seed=0)


def test_the_scorer_of_a_data_set_gets_the_row():
    env = make("countdown", config={"min_numbers": 3, "max_numbers": 3})
    env.reset(seed=4)
    numbers = env._row["metadata"]["numbers"]
    assert len(numbers) == 3
    # Another way to write the solution: only a scorer that knows the row can accept it.
    *_, info = env.step(f"<answer>({env._row['metadata']['expression']})</answer>")
    assert info["success"]


def test_reward_success_pays_nothing_for_a_partial_score():
    paid = []
    for reward in ("score", "success"):
        env = make("word_sorting", reward=reward)
        env.reset(seed=1)
        padded = f"<answer>{env._row['answer']} and so on and so on</answer>"
        paid.append(env.step(padded)[1])
    assert 0.0 < paid[0] < 1.0
    assert paid[1] == 0.0


def test_a_scorer_that_raises_gives_a_score_of_zero(monkeypatch):
    env = make("chain_sum")
    env.reset(seed=1)
    monkeypatch.setattr(env._rows, "score_answer", lambda *_: 1 / 0)
    _, reward, terminated, _, info = env.step("<answer>1</answer>")
    assert (reward, terminated, info["success"]) == (0.0, True, False)


def test_another_format_takes_the_place_of_the_tags():
    env = make("chain_sum", action_format="boxed")
    text, _ = env.reset(seed=1)
    assert r"\boxed" in text
    assert "<answer>" not in text
    assert env.step(env.oracle_action())[4]["success"]
