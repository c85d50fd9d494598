"""Plain transcripts, for models that were never taught to chat, and what no format can do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import ByT5Tokenizer

from llm_gym.core.errors import ConfigError
from llm_gym_agents.text.chat import ChatFormat
from llm_gym_agents.text.codec import whole
from llm_gym_agents.text.tokenizers import byte_tokenizer, word_tokenizer
from tests.agents.text.chat_templates import FAMILIES, base_tokenizer, build_tokenizer


def encode(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize(
    ("rules", "replies", "text"),
    [
        *(("Explore.", [f" go north{end}"], "Explore.\n\nA hall.\n> go north\nA den.\n>")
          for end in ("\n", "", "<|endoftext|>")),
        ("", [], "A hall.\n>"),
    ],
)  # fmt: skip
def test_a_plain_transcript_has_one_line_per_reply(rules, replies, text):
    tokenizer = base_tokenizer()
    chat = ChatFormat.from_tokenizer(tokenizer, plain=True)
    ids = chat.opening(rules, "A hall.")
    for reply in (encode(tokenizer, reply) for reply in replies):
        ids = [*ids, *reply, *chat.following(reply, "A den.")]
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_every_token_with_a_line_break_ends_a_line_of_a_plain_transcript():
    tokenizer = base_tokenizer()
    tokenizer.add_tokens([".\n", "\n\n"])
    chat = ChatFormat.from_tokenizer(tokenizer)
    dotted, double, line = (encode(tokenizer, text)[0] for text in (".\n", "\n\n", "\n"))
    assert {*chat.stop_ids} == {dotted, double, line, tokenizer.eos_token_id}
    assert chat.text_of([*encode(tokenizer, " go north"), dotted]) == "go north."
    assert chat.following([dotted], "A den.") == chat.following([line], "A den.")


def test_a_small_model_spends_one_token_per_turn_besides_words_and_ends():
    tokenizer = word_tokenizer(["in hall exits north", "go north"])
    chat = ChatFormat.from_tokenizer(tokenizer)
    assert chat.stop_ids == (tokenizer.eos_token_id,)
    opening = chat.opening("", "in hall\nexits north")
    assert tokenizer.convert_ids_to_tokens(opening) == [
        "<bos>",
        *["in", "hall", "exits", "north"],
        ">",
    ]
    reply = encode(tokenizer, "go north")
    more = chat.following([*reply, tokenizer.eos_token_id], "in hall")
    assert tokenizer.convert_ids_to_tokens(more) == ["in", "hall", ">"]
    assert chat.following(reply, "in hall") == [tokenizer.eos_token_id, *more]
    assert chat.text_of([*reply, tokenizer.eos_token_id]) == "go north"


@given(observation=st.text(st.characters() | st.sampled_from("\ud83d\ude00")), rules=st.text())
def test_a_byte_transcript_is_read_back_as_it_was(observation, rules):
    tokenizer = byte_tokenizer()
    chat = ChatFormat.from_tokenizer(tokenizer)
    expected = f"{rules}\n\n{whole(observation)}\n>" if rules else f"{whole(observation)}\n>"
    ids = chat.opening(rules, observation)
    assert ids[0] == tokenizer.bos_token_id
    assert bytes(ids[1:]).decode() == expected
    assert bytes(chat.following([], observation)).decode() == f"\n{whole(observation)}\n>"


def test_a_tokenizer_written_in_python_works_too():
    tokenizer = ByT5Tokenizer(extra_ids=0)
    assert not tokenizer.is_fast
    chat = ChatFormat.from_tokenizer(tokenizer)
    ids = chat.opening("Explore.", "A </s> hall \ud83d.")
    assert tokenizer.eos_token_id not in ids
    assert chat.text_of(ids) == "Explore.\n\nA </s> hall \ufffd.\n>"


# --- refusals --------------------------------------------------------------------------------

_TURNS = "{% for m in messages %}{{ CONTENT }}<|im_end|>{% endfor %}"


@pytest.mark.parametrize(
    ("template", "what"),
    [
        (_TURNS.replace("CONTENT", "'[Round ' ~ loop.index ~ ']' ~ m.content"), "second"),
        (_TURNS.replace("CONTENT", "messages[-1].content"), "in order"),
        (_TURNS.replace("CONTENT", "m.content | upper"), "in order"),
        (_TURNS.replace("CONTENT", "m.content | tojson"), "in order"),
        ("{{ raise_exception('tools only') }}", "tools only"),
    ],
)
def test_a_template_that_cannot_grow_is_refused(template, what):
    tokenizer = build_tokenizer(FAMILIES["chatml"])
    tokenizer.chat_template = template
    with pytest.raises(ConfigError, match=what):
        ChatFormat.from_tokenizer(tokenizer)


def test_a_format_without_any_end_is_refused():
    tokenizer = build_tokenizer(FAMILIES["alpaca"])
    tokenizer.eos_token = None
    with pytest.raises(ConfigError, match="eos_token"):
        ChatFormat.from_tokenizer(tokenizer)
    words = word_tokenizer(["a"])
    words.eos_token = None
    with pytest.raises(ConfigError, match="eos_token"):
        ChatFormat.from_tokenizer(words)


def test_template_options_without_a_template_are_refused():
    with pytest.raises(ConfigError, match="template_options"):
        ChatFormat.from_tokenizer(base_tokenizer(), template_options={"a": 1})
