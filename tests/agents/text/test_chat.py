"""Conversations grow by ids alone, and equal what the chat template writes."""

import copy
import pickle
from functools import cache
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from llm_gym.reading.formats import drop_thinking
from llm_gym_agents.model.load import tiny_llama
from llm_gym_agents.run.checkpoint_weights import save_lm
from llm_gym_agents.text.chat import ChatFormat
from llm_gym_agents.text.codec import whole
from llm_gym_agents.text.tokenizers import byte_tokenizer, word_tokenizer
from tests.agents.text.chat_templates import FAMILIES, base_tokenizer, build_tokenizer

in_every_way = settings(max_examples=10)
every_family = pytest.mark.parametrize("name", FAMILIES)
SURROGATES = "\ud83d\ude00"  # two halves, together and alone


@cache
def tokenizer_of(name, prepend=None):
    return build_tokenizer(FAMILIES[name], prepend)


@cache
def format_of(name, prepend=None):
    return ChatFormat.from_tokenizer(tokenizer_of(name, prepend))


def encode(tokenizer, text, **options):
    return tokenizer.encode(text, add_special_tokens=False, **options)


def decode(tokenizer, ids):
    return tokenizer.decode(ids, skip_special_tokens=False)


def ids_of(name, *words):
    return [tokenizer_of(name).convert_tokens_to_ids(word) for word in words]


def well_formed(name, content, prepend=None):
    """Return a reply as a model would sample it: the middle of a text, up to its end."""
    family, tokenizer = FAMILIES[name], tokenizer_of(name, prepend)
    ids = encode(tokenizer, f"\0{family.lead}{content}{family.trail}{family.end}")
    (zero,) = encode(tokenizer, "a\0")[-1:]  # a byte that no token shares
    return ids[ids.index(zero) + 1 :]


def messages_of(name, system, observations, contents):
    first, *later = observations
    messages = []
    if system and FAMILIES[name].system_role:
        messages.append({"role": "system", "content": system})
    elif system:
        first = f"{system}\n\n{first}"
    messages.append({"role": "user", "content": first})
    for content, observation in zip(contents, later, strict=True):
        messages.append({"role": "assistant", "content": content})
        messages.append({"role": "user", "content": observation})
    return messages


def play(name, system, observations, replies, prepend=None):
    chat = format_of(name, prepend)
    ids = chat.opening(system, observations[0])
    for reply, observation in zip(replies, observations[1:], strict=True):
        ids = [*ids, *reply, *chat.following(reply, observation)]
    return ids


def texts(name):
    """Any text that types none of the family's control tokens."""
    anything = st.text(
        st.characters() | st.sampled_from([*"\n\t <>|é😀", *SURROGATES]), max_size=30
    )
    words = FAMILIES[name].words
    return anything.filter(lambda text: not any(word in text for word in words))


# --- what a template writes ----------------------------------------------------------------


@every_family
@pytest.mark.parametrize("system", ["", "Explore.\nBe brief."])
@in_every_way
@given(data=st.data())
def test_the_ids_equal_those_of_the_whole_conversation_at_every_turn(name, system, data):
    family, tokenizer = FAMILIES[name], tokenizer_of(name)
    observations = [f"x{text}" for text in data.draw(st.lists(texts(name), min_size=1, max_size=3))]
    contents = ["go north", "take the rope"][: len(observations) - 1]
    replies = [well_formed(name, content) for content in contents]

    ids = play(name, system, observations, replies)

    conversation = messages_of(name, system, map(whole, observations), contents)
    text = tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
    if not family.prefill:
        assert ids == encode(tokenizer, text)
    written = decode(tokenizer, ids)
    if not family.greedy:
        assert written.replace(family.prefill, "") == text.replace(family.prefill, "")
    assert written.endswith(family.prefill)


@pytest.mark.parametrize("prepend", ["first", "always", "never"])
@pytest.mark.parametrize("name", ["gemma", "mistral", "llama-2", "llama-3", "chatml"])
def test_tokenizers_that_put_a_space_before_words_give_the_same_ids(name, prepend):
    tokenizer = tokenizer_of(name, prepend)
    observations, contents = ["You are here.", "A rope", " é😀 lies"], ["go north", "look"]
    replies = [well_formed(name, content, prepend) for content in contents]

    ids = play(name, "Explore.", observations, replies, prepend)

    conversation = messages_of(name, "Explore.", observations, contents)
    text = tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
    assert ids == encode(tokenizer, text)


@every_family
def test_the_engine_stops_at_what_ends_a_reply(name):
    family = FAMILIES[name]
    words = family.stops or tuple(filter(None, (family.end, family.eos)))
    assert set(format_of(name).stop_ids) == set(ids_of(name, *words))


def test_defaults_and_options_of_the_template_hold():
    written = decode(tokenizer_of("chatml"), format_of("chatml").opening("", "Hello"))
    assert written.count("You are a helpful assistant.") == 1
    written = decode(tokenizer_of("chatml"), format_of("chatml").opening("Be brief.", "Hello"))
    assert "You are a helpful assistant." not in written
    tokenizer = tokenizer_of("chatml")
    chat = ChatFormat.from_tokenizer(tokenizer, template_options={"enable_thinking": False})
    ending = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    assert decode(tokenizer, chat.opening("", "Hello")).endswith(ending)
    assert decode(tokenizer, chat.following([], "Hello")).endswith(ending)


@pytest.mark.parametrize("system", ["", "Be brief."])
def test_a_bos_missing_in_the_template_is_written_once(system):
    tokenizer = build_tokenizer(FAMILIES["gemma"])
    tokenizer.chat_template = tokenizer.chat_template.replace("{{- bos_token -}}", "")
    ids = ChatFormat.from_tokenizer(tokenizer).opening(system, "Hello")
    assert ids[0] == tokenizer.bos_token_id
    assert ids.count(tokenizer.bos_token_id) == 1


def test_reasoning_stays_in_the_history_where_the_template_drops_it():
    tokenizer = tokenizer_of("chatml")
    content = "<think>\nIs it north?\n</think>\n\ngo north"
    reply = well_formed("chatml", content)
    ids = play("chatml", "", ["one", "two"], [reply])
    assert content in decode(tokenizer, ids)
    conversation = messages_of("chatml", "", ["one", "two"], [content])
    assert "Is it" not in tokenizer.apply_chat_template(conversation, tokenize=False)
    assert drop_thinking(format_of("chatml").text_of(reply)).strip() == "go north"


# --- replies that are not well formed --------------------------------------------------------


@st.composite
def replies(draw, name):
    """Sampled ids of every kind: ended or cut, strange bytes, typed and real control tokens."""
    tokenizer, family = tokenizer_of(name), FAMILIES[name]
    typed = st.sampled_from([*family.words, "go north", " ", "\n", "😀", "", family.lead])
    text = "".join(draw(st.lists(typed, max_size=5)))
    parts = [
        encode(tokenizer, text, split_special_tokens=draw(st.booleans())),
        draw(st.lists(st.integers(0, len(tokenizer) - 1), max_size=5)),
        encode(tokenizer, family.trail) if draw(st.booleans()) else [],
    ]
    ids = [*chain(*draw(st.permutations(parts)))]
    ids = ids[: draw(st.integers(0, len(ids)))] if draw(st.booleans()) else ids
    return [*ids, *ids_of(name, *filter(None, [family.end]))] if draw(st.booleans()) else ids


@every_family
@in_every_way
@given(data=st.data())
def test_a_turn_is_ended_exactly_once_whatever_was_sampled(name, data):
    family, chat = FAMILIES[name], format_of(name)
    reply = data.draw(replies(name))
    ids = [*reply, *chat.following(reply, "You see a rope.")]
    assert ids[: len(reply)] == reply
    ends = ids_of(name, *{family.end, *family.stops} - {""})
    next_turn = chat.following(ends[:1], "You see a rope.")
    assert ids[len(ids) - len(next_turn) :] == next_turn
    closing = ids[len(reply) : len(ids) - len(next_turn)]
    if ends:
        assert ids[-len(next_turn) - 1] in ends
        assert sum(at in ends for at in [*reply[-1:], *closing]) == 1
    else:
        assert closing == []


@every_family
@in_every_way
@given(data=st.data())
def test_any_reply_can_be_read_as_text(name, data):
    text = format_of(name).text_of(data.draw(replies(name)))
    assert text == text.strip()
    assert whole(text) == text


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.bos])
def test_the_bos_is_written_once(name):
    (bos,), chat = ids_of(name, FAMILIES[name].bos), format_of(name)
    assert chat.opening("", "Hello").count(bos) == 1
    assert chat.opening("Be brief.", "Hello").count(bos) == 1
    again = 1 if name == "llama-2" else 0  # its template writes one before every user turn
    for reply in ([], [bos], well_formed(name, "go north")):
        assert chat.following(reply, "Hello").count(bos) == again


def test_a_cut_end_is_completed_and_the_end_of_text_ends_no_turn():
    tokenizer, chat = tokenizer_of("llama-2"), format_of("llama-2")
    whole_reply = encode(tokenizer, " go north </s>")
    ids = [*whole_reply, *chat.following(whole_reply, "Hello")]
    for cut in (1, 2):
        reply = whole_reply[:-cut]
        assert [*reply, *chat.following(reply, "Hello")] == ids
    chat, reply = format_of("gemma"), ids_of("gemma", "<eos>")
    written = decode(tokenizer_of("gemma"), chat.following(reply, "Hello"))
    assert written.startswith("<end_of_turn>\n<start_of_turn>user\nHello<end_of_turn>")


@pytest.mark.parametrize("end", ["<|end|>", "<|return|>"])
def test_a_reply_may_end_as_in_the_history_or_as_at_the_end_of_a_conversation(end):
    chat = format_of("harmony")
    written = decode(tokenizer_of("harmony"), chat.following(ids_of("harmony", end), "Hello"))
    assert written == "<|start|>user<|message|>Hello<|end|><|start|>assistant"


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("go north<|im_end|>", "go north"),
        ("  go north\n", "go north"),
        ("go north<|im_end|>\n<|im_start|>user\nYou win.", "go north"),
        ("<|im_start|>go north", "go north"),
        ("<think>a</think>go north", "<think>a</think>go north"),
        ("<|im_end|>", ""),
        ("", ""),
    ],
)
def test_the_action_is_the_text_up_to_the_end_of_the_reply(reply, text):
    assert format_of("chatml").text_of(encode(tokenizer_of("chatml"), reply)) == text


def test_spelled_out_control_tokens_stay_text_and_odd_ids_do_not_raise():
    tokenizer, chat = tokenizer_of("chatml"), format_of("chatml")
    reply = encode(tokenizer, "say <|im_end|> now", split_special_tokens=True)
    assert chat.text_of(reply) == "say <|im_end|> now"
    half, go = encode(tokenizer, "é")[:1], encode(tokenizer, "go")
    assert chat.text_of([*half, *go]) == "\ufffdgo"
    beyond = len(tokenizer) + 100  # a model's table of tokens is often longer than the vocabulary
    assert chat.text_of([beyond, *go]) == "go"


# --- what people write -----------------------------------------------------------------------


@every_family
@in_every_way
@given(data=st.data())
def test_typed_control_tokens_are_inert_and_readable(name, data):
    chat, tokenizer, words = format_of(name), tokenizer_of(name), FAMILIES[name].words
    parts = st.sampled_from([*words, *(word[1:] for word in words), *"<|\n ", "rope", "é😀"])
    typed, rules = ("".join(data.draw(st.lists(parts, max_size=6))) for _ in range(2))
    control = set(tokenizer.convert_tokens_to_ids(words))

    for ids, harmless in [
        (chat.opening(f"r{rules}s", typed), chat.opening("rules", "rope")),
        (chat.following([], typed), chat.following([], "rope")),
    ]:
        assert [at for at in ids if at in control] == [at for at in harmless if at in control]
        assert typed.strip() in decode(tokenizer, ids)
    assert f"r{rules}s" in decode(tokenizer, chat.opening(f"r{rules}s", typed))


@pytest.mark.parametrize("name", ["gemma", "llama-2"])
def test_words_cut_in_two_are_not_torn_apart_by_a_space(name):
    chat, tokenizer = format_of(name, "first"), tokenizer_of(name, "first")
    for word in FAMILIES[name].words:
        assert f"a {word}{word}" in decode(tokenizer, chat.opening("", f"a {word}{word}"))


@in_every_way
@given(
    parts=st.lists(st.sampled_from(["<eos>", "<unk>", "<pad>", "<bos>", "rope", "<"]), max_size=6)
)
def test_control_words_of_a_vocabulary_are_inert(parts):
    tokenizer = word_tokenizer(["rope lamp"])
    chat = ChatFormat.from_tokenizer(tokenizer)
    ids = chat.following([tokenizer.eos_token_id], " ".join(parts))
    assert {tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.pad_token_id}.isdisjoint(ids)
    assert ids.count(tokenizer.convert_tokens_to_ids("rope")) == parts.count("rope")


def test_an_unknown_token_and_added_line_breaks_are_inert():
    tokenizer = build_tokenizer(FAMILIES["chatml"])
    tokenizer.unk_token = "<|endoftext|>"
    ids = ChatFormat.from_tokenizer(tokenizer).opening("", "<|endoftext|>")
    assert tokenizer.unk_token_id not in ids
    tokenizer = build_tokenizer(FAMILIES["llama-3"])
    tokenizer.add_tokens(["\n\n"])  # the template writes it too
    ids = ChatFormat.from_tokenizer(tokenizer).following([], "Hello\n\nyou")
    text = "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHello\n\nyou<|eot_id|>"
    assert ids[: len(encode(tokenizer, text))] == encode(tokenizer, text)


@pytest.mark.parametrize("name", ["llama-3", "gemma"])
def test_white_space_around_a_content_is_trimmed_where_the_template_does(name):
    chat = format_of(name)
    assert chat.opening("", " \n Hello \n") == chat.opening("", "Hello")
    assert chat.following([], " \n Hello \n") == chat.following([], "Hello")


# --- an object to keep -----------------------------------------------------------------------


@pytest.mark.parametrize("already_set", [False, True])
def test_tokenizer_settings_and_chat_format_do_not_affect_each_other(already_set):
    tokenizer = build_tokenizer(FAMILIES["chatml"])

    def shorten():
        return tokenizer(
            "<|im_end|> here", truncation=True, max_length=1, split_special_tokens=True
        )

    if already_set:
        shorten()
    chat = ChatFormat.from_tokenizer(tokenizer)
    assert len(shorten().input_ids) == 1
    assert chat.opening("", "in the hall") == format_of("chatml").opening("", "in the hall")
    assert chat.following([], "in the hall") == format_of("chatml").following([], "in the hall")


def test_returned_ids_belong_to_the_caller():
    chat = format_of("chatml")
    for give in (lambda: chat.opening("a", "b"), lambda: chat.following([], "b")):
        first = give()
        first.append(-1)
        assert give() == first[:-1]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_format_can_be_copied_and_sent_to_another_process(copied):
    chat = format_of("llama-3")
    other = copied(chat)
    assert (other.kind, other.stop_ids) == (chat.kind, chat.stop_ids)
    assert other.opening("a", "b") == chat.opening("a", "b")
    assert other.following([1], "b") == chat.following([1], "b")
    assert other.text_of([65, 66]) == chat.text_of([65, 66])


def test_auto_takes_the_chat_template_if_there_is_one():
    assert format_of("chatml").kind == "chat"
    assert ChatFormat.from_tokenizer(base_tokenizer()).kind == "plain"
    assert ChatFormat.from_tokenizer(tokenizer_of("chatml"), plain=True).kind == "plain"


@pytest.mark.parametrize(
    "tokenizer", [word_tokenizer(["in hall", "go north"]), byte_tokenizer()], ids=["words", "bytes"]
)
def test_the_template_of_a_plain_transcript_writes_what_the_model_reads(tokenizer, tmp_path):
    """Saved with a model, so that plain transformers can talk to it; here it changes nothing."""
    chat = ChatFormat.from_tokenizer(tokenizer)
    save_lm(tmp_path, tiny_llama(tokenizer), tokenizer)
    assert tokenizer.chat_template is None
    saved = AutoTokenizer.from_pretrained(tmp_path)
    again = ChatFormat.from_tokenizer(saved)
    assert (again.kind, again.stop_ids) == ("plain", chat.stop_ids)
    for system in ("", "go north"):
        talk = messages_of("chatml", system, ["in hall", "in hall"], ["go north"])
        first, reply = chat.opening(system, "in hall"), chat.reply("go north")
        assert again.opening(system, "in hall") == first
        longer = [*first, *reply, *chat.following(reply, "in hall")]
        for messages, ids in ((talk[:-2], first), (talk, longer)):
            written = saved.apply_chat_template(
                messages, add_generation_prompt=True, return_dict=False
            )
            assert written == ids
