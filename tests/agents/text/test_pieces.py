"""The text of each token: together they are the text, and no character is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym_agents.text.codec import TokenTexts
from tests.agents.text.chat_templates import base_tokenizer

TOKENIZER = base_tokenizer()
PIECES = TokenTexts(TOKENIZER)


@given(st.text(max_size=40))
def test_the_pieces_are_the_text(text):
    ids = TOKENIZER.encode(text)
    assert len(PIECES(ids)) == len(ids)
    assert "".join(PIECES(ids)) == text


def test_a_character_of_several_tokens_is_the_last_ones():
    ids = TOKENIZER.encode("a😀b")
    assert len(ids) == 6
    assert PIECES(ids) == ["a", "", "", "", "😀", "b"]


def test_a_control_token_is_shown():
    assert PIECES([*TOKENIZER.encode("go"), TOKENIZER.eos_token_id])[-1] == "<|endoftext|>"


@pytest.mark.parametrize("count", [1, 3, 50])
def test_bytes_of_no_text_are_shown_as_such_and_looked_at_a_few_at_a_time(count, monkeypatch):
    lone = TOKENIZER.encode("😀")[1]  # a byte that never begins a character
    looked, decode = [], TokenTexts._decode

    def noted(self, ids):
        looked.append(len(ids))
        return decode(self, ids)

    monkeypatch.setattr(TokenTexts, "_decode", noted)
    assert "".join(PIECES([lone] * count)) == "\ufffd" * count
    assert max(looked) <= 16


def test_no_tokens_have_no_pieces():
    assert PIECES([]) == []
