"""ChainSum and LetterCounting: a question whose answer is a number, and one try."""

import pytest

from llm_gym.envs.questions.number_question import ChainSumEnv, LetterCountingEnv, chain_value
from llm_gym.envs.shared.word_list import all_words


def chain(text="12 + 5 - 30"):
    env = ChainSumEnv()
    env.reset(seed=0)
    env._chain = text
    return env


def letters(letter="e", retries=0):
    env = LetterCountingEnv(retries=retries)
    env.reset(seed=0)
    env._letter, env._text = letter, "cheese tree sky"
    return env


CHAINS = {"1 + 1": 2, "0 - 7": -7, "12 + 5 - 30": -13, "9 - 9": 0, "8 - 3 - 4": 1}
LETTERS = {"e": 5, "t": 1, "s": 2, "z": 0}


@pytest.mark.parametrize(
    ("make", "asked", "value"),
    [*((chain, *row) for row in CHAINS.items()), *((letters, *row) for row in LETTERS.items())],
)
def test_the_right_number_wins(make, asked, value):
    assert make is letters or chain_value(asked) == value
    obs, reward, terminated, truncated, info = make(asked).step(str(value))
    assert obs == f"Yes, it is {value}."
    assert (reward, terminated, truncated, info["stop_reason"]) == (1.0, True, False, "won")


@pytest.mark.parametrize(
    ("make", "answer", "text"),
    [
        *((chain, -13, text) for text in ("13", "-12", "0", "-13.5", "-130")),
        *((letters, 5, text) for text in ("4", "6", "0", "-5", "50", "5.5")),
    ],
)
def test_a_wrong_number_loses_at_once_and_is_put_right(make, answer, text):
    obs, reward, terminated, truncated, info = make().step(text)
    assert obs == f"No. The answer is {answer}."
    assert (reward, terminated, truncated, info["stop_reason"]) == (0.0, True, False, "lost")
    assert info["valid_action"]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        *(
            (chain, text)
            for text in ("\u221213", "-13.", "12 + 5 - 30 = -13", "The answer is -13.")
        ),
        *((letters, text) for text in ("It occurs 5 times.", "5.", "The answer is 5", "2 + 3 = 5")),
        (lambda: chain("999 + 1"), "1,000"),
    ],
)
def test_other_ways_to_write_the_number_win_too(make, text):
    assert make().step(text)[4]["success"]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        *((chain, text) for text in ("minus thirteen", "-13 or 13", "?", "12 + 5 - 30")),
        *((letters, text) for text in ("several", "5 or 6", "e", "4, 5", "?")),
    ],
)
def test_no_number_or_several_is_unusable_and_pays_nothing(make, text):
    obs, reward, terminated, _, info = make().step(text)
    assert (reward, terminated, info["valid_action"]) == (0.0, True, False)
    assert obs.endswith(f"The answer is {-13 if make is chain else 5}.")


def test_retries_forgive_a_slip_of_form_but_no_wrong_number():
    env = letters(retries=1)
    assert not env.step("several")[2]
    assert env.step("5")[4]["success"]
    assert letters(retries=1).step("4")[2]


def drawn(count=200, **kwargs):
    env = ChainSumEnv(**kwargs)
    env.reset(seed=0)
    return [(env.reset(), env._chain)[1] for _ in range(count)]


def test_terms_and_digits_are_as_was_asked_for():
    chains = drawn(min_terms=3, max_terms=5, min_digits=2, max_digits=4)
    assert {len(chain.split()[::2]) for chain in chains} == {3, 4, 5}
    terms = [term for chain in chains for term in chain.split()[::2]]
    assert {len(term) for term in terms} == {2, 3, 4}
    assert all(term[0] != "0" for term in terms)
    assert {sign for chain in chains for sign in chain.split()[1::2]} == {"+", "-"}
    digits = drawn(max_terms=2, max_digits=1)
    assert {term for chain in digits for term in chain.split()[::2]} == set("0123456789")


def test_words_are_as_many_as_asked_for_and_from_the_list_and_zero_is_an_answer():
    env, sizes, answers = LetterCountingEnv(min_words=2, max_words=4), set(), []
    for seed in range(300):
        state = env.reset(seed=seed)[0].split("\n\n")[1]
        assert not any(character.isdigit() for character in state), "the answer is not in it"
        assert set(env._text.split()) <= set(all_words())
        sizes.add(len(env._text.split()))
        answers.append(int(env.oracle_move()))
    assert sizes == {2, 3, 4}
    assert 0 < answers.count(0) < 150
    assert len(set(answers)) > 3
