"""SearchQA: invented worlds, chains of facts, and answers."""

import numpy as np
import pytest

from llm_gym.envs.tool_use.fact_world import (
    RELATIONS,
    ask,
    document,
    draw_chain,
    draw_world,
    fact,
    follow,
    read_question,
)
from llm_gym.envs.tool_use.search_qa import SearchQAEnv, same_answer
from tests.envs.playing import start_game


@pytest.fixture
def env():
    made = start_game("SearchQA")
    return made


@pytest.mark.parametrize("hops", [1, 2, 3, 4, 5, 6])
def test_every_chain_can_be_followed_through_the_documents_alone(hops):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        world = draw_world(rng, 60)
        chain = draw_chain(rng, world, hops)
        if chain is None:
            continue
        start, relations = chain
        way = follow(world, start, relations)
        assert len(set(way)) == hops + 1, "nothing is visited twice"
        for at, relation in enumerate(relations):
            assert fact(document(way[at], world[way[at]]), way[at], relation) == way[at + 1]
        assert read_question(ask(start, relations)) == (start, relations)


def test_each_fact_is_in_one_document_only():
    world = draw_world(np.random.default_rng(0), 80)
    assert len(world) >= 75
    for subject, facts in world.items():
        text = document(subject, facts)
        for relation in RELATIONS:
            assert fact(text, subject, relation) == facts.get(relation)
            assert fact(text, "Nobody", relation) is None


def test_no_question_shows_its_answer_or_asks_for_a_capitals_country():
    env = SearchQAEnv(hops=3)
    for seed in range(50):
        obs, _ = env.reset(seed=seed)
        assert env._way[-1] not in obs
    env = start_game("SearchQA", hops=4, documents=100)
    for _ in range(60):
        assert "country of the capital" not in env.reset()[0]


@pytest.mark.parametrize(
    ("given", "right", "same"),
    [
        ("norvik", "Norvik", True), (" The Norvik! ", "Norvik", True), ("Norvi", "Norvik", False),
        ("", "Norvik", False), ("Silent Bridge", "The Silent Bridge", True), ("é", "e", False),
    ],
)  # fmt: skip
def test_answers_are_compared_but_for_case_articles_and_punctuation(given, right, same):
    assert same_answer(given, right) is same


def test_right_and_wrong_answers_end_the_game(env):
    right = env._way[-1]
    saved = env.snapshot()
    assert env.step(f"answer: {right.lower()}.")[1:3] == (1.0, True)
    env.restore(saved)
    obs, reward, terminated, *_ = env.step("answer: nobody knows")
    assert (obs, reward, terminated) == (f"No, it is {right}.", 0.0, True)


def test_hostile_queries_are_answered(env):
    for query in ("\x00", "\ud800", "x" * 3000, "a " * 1500, "%s {0}", "🙂", "---"):
        obs, *_ = SearchQAEnv.step(env, f"search: {query}")
        assert obs
        env.reset(seed=0)


def test_swapping_the_secret_changes_the_documents(env):
    last = env._way[-2]
    env.step("search: anything at all")
    env.swap_secret(np.random.default_rng(1))
    assert env._way[-1] in env.step(f"search: {last}")[0]


def test_the_potential_counts_the_documents_of_the_chain():
    env = start_game("SearchQA", 3, hops=2, shaping=True)
    way = env._way
    assert env.potential() == 0.0
    terms = [env.step(f"search: {name}")[4]["reward_terms"]["shaping"] for name in way[:-1]]
    assert sum(terms) == env.potential() == 1.0
    assert env.step(f"answer: {way[-1]}")[4]["reward_terms"] == {"success": 1.0, "shaping": -1.0}


def test_settings_have_an_effect():
    small, large = SearchQAEnv(documents=20), SearchQAEnv(documents=200)
    for env in (small, large):
        env.reset(seed=0)
    assert len(small._world) < 25 < 190 < len(large._world)
    assert SearchQAEnv(results=1).reset(seed=0)[0].count("1 documents") == 1
