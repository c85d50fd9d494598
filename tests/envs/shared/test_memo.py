"""Memo: the values of a pure function, remembered up to a number of arguments."""

from llm_gym.envs.shared.memo import Memo


def test_a_value_is_computed_once():
    asked = []
    memo = Memo(lambda text: asked.append(text) or len(text))
    assert [memo["four"], memo["four"], memo[""]] == [4, 4, 0]
    assert asked == ["four", ""]


def test_none_is_a_value_like_any_other():
    asked = []
    memo = Memo(asked.append)
    assert memo["x"] is None
    assert memo["x"] is None
    assert asked == ["x"]


def test_no_more_than_size_arguments_are_remembered():
    memo = Memo(str, size=3)
    for number in range(100):
        assert memo[number] == str(number)
        assert len(memo) <= 3
