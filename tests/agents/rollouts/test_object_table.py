"""ObjectTable: handles that cannot be mistaken."""

import pytest

from llm_gym_agents.rollouts.pool import ObjectTable


def test_a_handle_gives_back_its_entry_and_zero_the_empty_one():
    table = ObjectTable("")
    handles = [table.add(text) for text in ("a", "b")]
    assert table.read([*handles, 0]) == ["a", "b", ""]


def test_a_handle_from_before_a_clear_is_noticed_not_misread():
    table = ObjectTable("")
    old = table.add("old")
    table.clear()
    new = table.add("new")
    assert table[new] == "new"
    with pytest.raises(KeyError, match="was it cleared before this was read"):
        table[old]


def test_a_handle_never_given_is_refused():
    with pytest.raises(KeyError, match="handle 7 is not in the table"):
        ObjectTable("")[7]
