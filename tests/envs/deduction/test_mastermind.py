"""Mastermind: the rules, one test per rule."""

from itertools import product

import pytest

from llm_gym.envs.deduction.mastermind import MastermindEnv, fitting_codes, pegs
from tests.envs.playing import start_game


def test_pegs_agree_with_the_textbook_formula_on_every_pair_of_codes():
    codes = list(product((1, 2, 3), repeat=3))
    for guess, code in product(codes, codes):
        black = sum(a == b for a, b in zip(guess, code, strict=True))
        shared = sum(min(guess.count(n), code.count(n)) for n in (1, 2, 3))
        assert pegs(guess, code) == (black, shared - black)


@pytest.mark.parametrize("repeats", [True, False])
def test_the_fitting_codes_are_exactly_those_that_give_the_same_answers(repeats):
    numbers = (1, 2, 3, 4)
    codes = [c for c in product(numbers, repeat=3) if repeats or len(set(c)) == 3]
    for code in codes[::5]:
        answers = [(guess, *pegs(guess, code)) for guess in ((1, 2, 3), (3, 3, 4))]
        expected = [c for c in codes if all(pegs(g, c) == (b, w) for g, b, w in answers)]
        found = list(fitting_codes(numbers, 3, repeats, answers))
        assert sorted(found) == expected


def test_every_code_can_be_drawn_with_duplicates_only_if_allowed():
    env = MastermindEnv(numbers=4)
    assert all(len(set(env.reset(seed=s) and env._code)) == 4 for s in range(50))
    env = MastermindEnv(numbers=4, duplicates=True)
    assert any(len(set(env.reset(seed=s) and env._code)) < 4 for s in range(50))
    env = start_game("Mastermind", code_length=2, numbers=3)
    drawn = {env.reset() and env._code for _ in range(200)}
    assert drawn == {(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)}
    assert not MastermindEnv(code_length=2).has_splits
    assert MastermindEnv().has_splits
