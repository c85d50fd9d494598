"""Countdown: exact arithmetic, a complete search, and the rules of both ways to play."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.core.errors import ConfigError
from llm_gym.envs.questions.countdown import CountdownEnv
from llm_gym.envs.questions.countdown_arithmetic import (
    combine,
    evaluate,
    parse_expression,
    partners,
    search,
    write,
)
from tests.envs.playing import episodes, start_game


def started(numbers, target, **kwargs):
    """Return an environment with these numbers and this target."""
    env = start_game("Countdown", numbers=max(2, len(numbers)), **{"max_turns": 8, **kwargs})
    env._table, env._given, env._target = list(numbers), tuple(numbers), target
    env._way = search(tuple(numbers), target, env.use_all) or 0
    return env


def value(text):
    return evaluate(parse_expression(text))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("1 + 2 * 3", 7), ("(1 + 2) * 3", 9), ("10 - 4 - 3", 3), ("24 / 4 / 2", 3), ("2 - 5", -3),
        ("7", 7), ("((7))", 7), ("1/3", Fraction(1, 3)), ("8 / (3 - 8 / 3)", 24),
        ("49 * (1 / 49)", 1), ("0 * 5", 0), ("6 × 7", 42), ("[8 ÷ 2] − 1", 3), ("2 + 5 - 3 = 4", 4),
        ("007", 7), ("(" * 3000 + "1" + ")" * 3000, 1), ("0 / 5", 0), ("1 / (2 - 2)", None),
    ],
)  # fmt: skip
def test_expressions_have_exact_values(text, result):
    assert value(text) == result


@pytest.mark.parametrize(
    "text",
    ["", " ", "=", "= 4", "+", "1 +", "+ 1", "-1", "1 - -1", "1 2", "(1", "1)", "()", "1 (2)",
     "(1)(2)", "1 ** 2", "1 // 2", "2 ^ 3", "1.5", "1e3", "x + 1", "__import__('os')", "٣ + 1",
     "1 + 2;", "1, 2", "9" * 19, "1 + " + "9" * 5000, "(" * 500, "(" * 300 + "1" + ")" * 299],
)  # fmt: skip
def test_anything_else_is_no_expression(text):
    assert parse_expression(text) is None


@given(st.text(alphabet="0123456789+-*/() =", max_size=40))
def test_the_parser_agrees_with_python(text):
    postfix = parse_expression(text)
    if postfix is None:
        return
    numbers = [token for token in postfix if isinstance(token, int)]
    names = iter(f"f({number})" for number in numbers)
    source = text.partition("=")[0].strip()
    rewritten = "".join(next(names) if part.isdigit() else part for part in _parts(source))
    try:
        expected = eval(rewritten, {"f": Fraction})
    except ZeroDivisionError:
        expected = None
    assert evaluate(postfix) == expected


def _parts(text):
    """Split into runs of digits and single other characters."""
    run = ""
    for letter in text:
        if letter.isdigit():
            run += letter
            continue
        if run:
            yield run
        run = ""
        yield letter
    if run:
        yield run


def naive(numbers):
    """Return all that an ordered search over pairs can make of all the numbers."""
    if len(numbers) == 1:
        return {numbers[0]}
    found = set()
    for i, a in enumerate(numbers):
        for j, b in enumerate(numbers):
            if i < j:
                rest = [n for k, n in enumerate(numbers) if k not in (i, j)]
                for made, _, _ in combine(a, b):
                    found |= naive([*rest, made])
    return found


@pytest.mark.parametrize(
    ("numbers", "first"),
    [((3, 5), 1), ((2, 2, 7), 1), ((1, 5, 6, 7), 1), ((4, 4, 10, 25), 1), ((3, 7, 8, 10, 50), 300)],
)
def test_the_search_is_complete_and_right(numbers, first):
    reachable = naive(list(numbers))
    for target in range(first, first + (200 if first == 1 else 40)):
        tree = search(numbers, target, use_all=True)
        assert (tree is not None) == (target in reachable), target
        if tree is not None:
            postfix = parse_expression(write(tree))
            assert evaluate(postfix) == target
            assert sorted(n for n in postfix if isinstance(n, int)) == sorted(numbers)


def test_without_use_all_the_search_uses_the_fewest_numbers():
    assert write(search((100, 75, 6, 4, 3, 2), 175, use_all=False)) in {"100 + 75", "75 + 100"}
    assert search((2, 3), 100, use_all=False) is None


def test_partners_invert_combine():
    for a in range(1, 13):
        for target in range(1, 13):
            made = {(b, sign) for b in range(1, 200) for v, sign, _ in combine(a, b) if v == target}
            assert {(b, sign) for b, sign, _ in partners(a, target)} >= made
            for b, sign, swap in partners(a, target):
                left, right = (b, a) if swap else (a, b)
                assert evaluate([left, right, sign]) == target


PUZZLES = [
    {},
    {"numbers": 2, "max_number": 12},
    {"numbers": 6, "max_number": 100, "min_target": 100, "max_target": 999},
    {"numbers": 6, "max_number": 10, "large": 4, "min_target": 100, "max_target": 999},
    {"numbers": 3, "stepwise": True, "use_all": False},
]


@pytest.mark.parametrize("settings", PUZZLES)
def test_every_puzzle_is_solvable_and_within_its_ranges(settings):
    seen = set()
    for env in episodes("Countdown", 60, **settings):
        seen.add(env.instance_id())
        assert len(env._given) == env.numbers
        assert env.min_target <= env._target <= env.max_target
        assert env._target not in env._given
        large = [n for n in env._given if n > env.max_number]
        assert set(large) <= {25, 50, 75, 100}
        assert env.large == 0 or len(large) == env.large == len(set(large))
        assert value(write(env._way)) == env._target
    assert len(seen) > 30, "one seed, one puzzle"


def test_unreachable_targets_and_huge_numbers_can_be_played_on():
    env = started([2, 3, 4, 5], 1000, stepwise=True)
    env.step("2 + 3")
    assert env.step(env.solver_action())[4]["valid_action"]
    env = started([1000] * 6, 7, stepwise=True)
    for _ in range(5):
        assert env.step(max(env.legal_moves(), key=lambda move: value(move)))[4]["valid_action"]
    assert env._table == [1000**6]


def test_legal_moves_are_the_steps_that_are_allowed():
    env = started([6, 3, 3], 50, stepwise=True)
    assert set(env.legal_moves()) == {
        "3 + 3", "3 * 3", "3 / 3", "6 + 3", "6 * 3", "6 - 3", "6 / 3",
    }  # fmt: skip
    assert CountdownEnv().legal_moves() is None


def test_targets_out_of_reach_are_reported():
    env = CountdownEnv(numbers=2, max_number=2, min_target=50, max_target=60)
    with pytest.raises(ConfigError, match="target"):
        env.reset(seed=0)
