"""WordLadder: the rules, one test per rule."""

import pytest

from llm_gym.envs.puzzles.word_ladder import (
    FARTHEST,
    distances,
    ladder_words,
    steps_between,
    word_graph,
)
from tests.envs.playing import episodes, start_game


def differing(word, other):
    return sum(a != b for a, b in zip(word, other, strict=True))


@pytest.mark.parametrize("length", FARTHEST)
def test_neighbours_are_exactly_the_words_one_letter_away(length):
    words, steps = ladder_words(length), word_graph(length).steps
    for word in words[:: len(words) // 20]:
        assert list(steps[word]) == [other for other in words if differing(word, other) == 1]


def test_a_ladder_of_lewis_carroll_has_five_steps():
    assert steps_between("head", "tail") == steps_between("tail", "head") == 5


def test_distances_agree_with_a_plain_search():
    steps = word_graph(3).steps
    away, queue = {"cat": 0}, ["cat"]
    for word in queue:
        for near in steps[word]:
            if near not in away:
                away[near] = away[word] + 1
                queue.append(near)
    assert {word: steps_between(word, "cat") for word in queue} == away
    assert len(queue) == len(word_graph(3).linked)


@pytest.mark.parametrize(("length", "farthest"), FARTHEST.items())
def test_every_word_has_another_one_at_the_farthest_distance(length, farthest):
    linked = word_graph(length).linked
    assert min(int(distances(length, at).max()) for at in linked[::5]) >= farthest
    assert len(linked) > 400


@pytest.mark.parametrize(
    "settings",
    [
        {"word_length": 3, "min_distance": 1, "max_distance": 1},
        {"min_distance": 2, "max_distance": 4},
        {"min_distance": 9, "max_distance": 100},
        {"word_length": 5, "min_distance": 16, "max_distance": 20},
    ],
)
def test_the_shortest_ladder_has_the_distance_of_the_settings(settings):
    ladders = episodes("WordLadder", 40, **settings)
    found = {steps_between(env._word, env._target) for env in ladders}
    assert min(found) == settings["min_distance"]
    assert max(found) <= settings["max_distance"]
    assert len(found) == 1 or settings["min_distance"] < max(found)


def test_hints_list_the_words_one_step_away():
    obs, *_ = start_game("WordLadder", _word="ward", hints=True).step("warm")
    listed = obs.split("One step leads to: ")[1].split(". Turns")[0].split(", ")
    assert tuple(listed) == word_graph(4).steps["warm"]
    assert "One step" not in start_game("WordLadder", _word="ward").step("warm")[0]
