"""LetterCounting: the rules, one test per rule."""

import pytest

from llm_gym.envs.questions.number_question import LetterCountingEnv
from llm_gym.envs.shared.word_list import all_words


def make(letter="e", text="cheese tree sky", **kwargs):
    env = LetterCountingEnv(**kwargs)
    env.reset(seed=0)
    env._letter, env._text = letter, text
    return env


def test_the_question_names_the_letter_and_the_words():
    assert make().describe() == 'How many times does the letter "e" occur in "cheese tree sky"?'


@pytest.mark.parametrize(("letter", "count"), [("e", 5), ("t", 1), ("s", 2), ("z", 0)])
def test_the_right_number_wins(letter, count):
    obs, reward, terminated, truncated, info = make(letter).step(str(count))
    assert obs == f"Yes, it is {count}."
    assert (reward, terminated, truncated, info["stop_reason"]) == (1.0, True, False, "won")


@pytest.mark.parametrize("text", ["4", "6", "0", "-5", "50", "5.5"])
def test_a_wrong_number_loses_at_once_and_is_put_right(text):
    obs, reward, terminated, truncated, info = make().step(text)
    assert obs == "No. The answer is 5."
    assert (reward, terminated, truncated, info["stop_reason"]) == (0.0, True, False, "lost")
    assert info["valid_action"]


@pytest.mark.parametrize("text", ["It occurs 5 times.", "5.", "The answer is 5", "2 + 3 = 5"])
def test_a_sentence_around_the_number_does_no_harm(text):
    assert make().step(text)[4]["success"]


@pytest.mark.parametrize("text", ["several", "5 or 6", "e", "4, 5", "?"])
def test_no_number_or_two_is_unusable_and_pays_nothing(text):
    obs, reward, terminated, _, info = make().step(text)
    assert (reward, terminated, info["valid_action"]) == (0.0, True, False)
    assert obs.endswith("No turns left: you lost. The answer is 5.")


def test_retries_forgive_a_slip_of_form_but_no_wrong_number():
    env = make(retries=1)
    assert not env.step("several")[2]
    assert env.step("5")[4]["success"]
    assert make(retries=1).step("4")[2]


def test_the_number_of_words_is_as_was_asked_for():
    env = LetterCountingEnv(min_words=2, max_words=4)
    env.reset(seed=0)
    sizes = {len((env.reset(), env._text.split())[1]) for _ in range(100)}
    assert sizes == {2, 3, 4}


def test_words_come_from_the_list_and_zero_is_an_answer_now_and_then():
    env = LetterCountingEnv()
    env.reset(seed=0)
    answers = []
    for _ in range(300):
        env.reset()
        assert set(env._text.split()) <= set(all_words())
        answers.append(int(env.oracle_move()))
    assert 0 < answers.count(0) < 60
    assert len(set(answers)) > 5


def test_the_answer_never_stands_in_the_question():
    env = LetterCountingEnv()
    for seed in range(50):
        state = env.reset(seed=seed)[0].split("\n\n")[1]
        assert not any(character.isdigit() for character in state)
