"""Long replies are gone over once: whatever is read from each of its places takes minutes here."""

import pytest

from llm_gym.datasets.numbers import is_bare, parse_number
from llm_gym.envs.shared.word_list import find_words
from llm_gym.reading.moves import find_numbers
from tests.matrix import some_of

LONG = 100_000
PIECES = ["9", "1/", "1 + ", "1 2 ", "\t", "\\", "e5", "5 \\abc{", "9,", "\u0301", "x=", "'a", "- "]


@pytest.mark.parametrize(("piece", "end"), some_of(PIECES, ["", "no good", "7 ="]))
def test_numbers_and_words_are_looked_for_in_one_pass(piece, end):
    text = piece * (LONG // len(piece)) + end
    assert isinstance(is_bare(text), bool)
    assert parse_number(text) is None
    assert sum(1 for _ in find_numbers(text)) <= LONG
    assert sum(1 for _ in find_words(text[:20_000], (1, 5))) <= LONG


def test_a_chain_is_a_sum_only_where_its_result_follows():
    assert [move for *_, move in find_numbers("1 + 2 + 3 = 6 and 1/2/3")] == ["6", "1", "2", "3"]
    assert [move for *_, move in find_numbers("12*3 gives 36")] == ["36"]
