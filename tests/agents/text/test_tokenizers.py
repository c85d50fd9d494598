"""Tokenizers made on the spot read games cheaply; the text of each token cuts no character."""

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from llm_gym.core.errors import ConfigError
from llm_gym.core.spaces import AnyText
from llm_gym.registry.suite import ENVS
from llm_gym_agents.text.codec import TokenTexts
from llm_gym_agents.text.tokenizers import (
    byte_tokenizer,
    collect_vocabulary,
    common_words,
    piece_tokenizer,
    word_tokenizer,
)
from llm_gym_agents.trainer.build import tiny_tokenizer
from tests.agents.text.chat_templates import base_tokenizer

EASY = "llm_gym/TextGameEasy-v0"


@pytest.fixture(scope="module")
def easy():
    return word_tokenizer(collect_vocabulary([EASY], episodes=100))


def ids_of(tokenizer, text):
    return tokenizer(text, add_special_tokens=False).input_ids


def played(env, act, **options):
    """Yield every observation of an episode in which ``act`` returns the moves."""
    observation, info = env.reset(**options)
    over = False
    while not over:
        yield observation, info
        observation, _, terminated, truncated, info = env.step(act(observation))
        over = terminated or truncated
    yield observation, info


def test_an_unseen_game_is_read_word_by_word(easy):
    env, total = gym.make(EASY, rules="system"), 0
    for seed in range(10_000, 10_030):
        *turns, _ = played(env, lambda _: env.unwrapped.oracle_action(), seed=seed)
        for observation, _ in turns:
            ids = ids_of(easy, observation)
            assert len(ids) == len(observation.split())
            assert easy.unk_token_id not in ids
            total += len(ids)
    assert total > 2_000


def test_every_legal_move_survives_encoding_and_decoding(easy):
    env = gym.make(EASY, rules="system")
    env.reset(seed=10_000)
    for action in env.unwrapped.legal_actions():
        ids = ids_of(easy, action)
        assert easy.unk_token_id not in ids
        assert easy.decode([easy.bos_token_id, *ids, easy.eos_token_id], True) == action


def test_answers_to_unusable_moves_are_read_in_a_small_vocabulary(easy):
    env = gym.make(EASY, rules="system")
    for action in ("", "xyzzy", "take rope rope"):
        env.reset(seed=10_001)
        observation = env.step(action)[0]
        assert easy.unk_token_id not in ids_of(easy, observation), observation
    assert len(easy) < 128


# Of each kind of vocabulary: all words known; names, numbers, words and code that never end.
OPEN = ("Countdown", "Hangman", "WordLadder", "LetterCounting", "MathPython", "SearchQA")
OPEN += ("TextToSQL", "ChainSum")


@pytest.mark.parametrize("game", ["TextGameEasy", "MazeEasy", *(f"{name}Easy" for name in OPEN)])
def test_a_solver_wins_through_the_tokenizer(game):
    env = gym.make(f"llm_gym/{game}-v0", rules="system")
    tokenizer = tiny_tokenizer({f"llm_gym/{game}-v0": {"rules": "system"}})

    def respond(observation):
        ids = ids_of(tokenizer, env.unwrapped.solver_action())
        assert tokenizer.unk_token_id not in [*ids, *ids_of(tokenizer, observation)]
        return tokenizer.decode(ids, skip_special_tokens=True)

    for seed in range(10_000, 10_002):
        *_, (_, info) = played(env, respond, seed=seed, options={"split": "test"})
        assert info["success"]


def test_common_words_are_whole_and_all_others_are_spelled():
    texts = ["Word: apple 7", "Word: pear 7", *["Word: plum"] * 2]
    tokenizer = piece_tokenizer(texts, common_words(texts, least=0.5))
    assert tokenizer.tokenize("Word: plum pear 7") == [
        *("Word", ":", "plum", "p", "##e", "##a", "##r", "7")
    ]


@pytest.mark.parametrize("make", [word_tokenizer, piece_tokenizer])
def test_half_a_character_in_the_texts_of_a_game_is_read(make):
    words = make(["go \ud800 north"])
    assert words.tokenize("go \ufffd north") == ["go", "\ufffd", "north"]


def test_spaces_cost_no_tokens_and_a_word_has_one_id_everywhere():
    tokenizer = word_tokenizer(["in hall go"])
    assert ids_of(tokenizer, "\n in \t\nhall\n\n go ") == ids_of(tokenizer, "in hall go")
    assert ids_of(tokenizer, "\n \n") == []
    tokenizer = word_tokenizer(["Say blue. Exits: north, east!"])
    assert ids_of(tokenizer, "blue")[0] in ids_of(tokenizer, "Say blue.")
    assert tokenizer.unk_token_id not in ids_of(tokenizer, "north east , Exits")
    assert tokenizer.tokenize("3.14 a.b .") == ["<unk>", "<unk>", "."]


def test_special_tokens_come_first_whatever_the_texts_and_their_order():
    tokenizer = word_tokenizer(["<eos> f a <pad> >", "b e d c"])
    tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    assert tokens == ["<pad>", "<bos>", "<eos>", "<unk>", ">", *"abcdef"]
    assert tokenizer.pad_token_id != tokenizer.eos_token_id
    texts = ["go north", "take rope", "in hall"]
    assert word_tokenizer(texts).get_vocab() == word_tokenizer(texts[::-1]).get_vocab()


@given(text=st.text())
def test_any_text_becomes_known_words_or_unknown_ones(easy, text):
    ids = ids_of(easy, text)
    assert all(0 <= at < len(easy) for at in ids)


@given(text=st.text())
def test_bytes_give_every_text_back(text):
    tokenizer = byte_tokenizer()
    ids = ids_of(tokenizer, text.replace("<", "("))
    assert bytes(ids).decode() == tokenizer.decode(ids) == text.replace("<", "(")


def test_bytes_that_are_no_text_do_not_raise():
    tokenizer = byte_tokenizer()
    assert tokenizer.decode([0xC3, ord("a")]) == "\ufffda"
    assert len(tokenizer) == 259
    assert tokenizer.convert_tokens_to_ids(["<pad>", "<bos>", "<eos>"]) == [256, 257, 258]


@pytest.mark.parametrize("make", [byte_tokenizer, lambda: word_tokenizer(["go north."])])
def test_a_tokenizer_survives_saving_and_loading(make, tmp_path):
    tokenizer = make()
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = "go  north.\nxyzzy é <eos>"
    assert loaded(text).input_ids == tokenizer(text).input_ids
    assert loaded(text).input_ids[0] == loaded.bos_token_id
    assert loaded.decode(loaded(text).input_ids) == tokenizer.decode(tokenizer(text).input_ids)
    assert loaded.special_tokens_map == tokenizer.special_tokens_map
    assert loaded.get_vocab() == tokenizer.get_vocab()


FIRST_OF_CLASS = {row.entry_point: row.id for row in reversed(ENVS)}.values()


@pytest.mark.parametrize("env_id", FIRST_OF_CLASS)
def test_a_vocabulary_can_be_collected_from_every_environment(env_id):
    texts = collect_vocabulary([env_id], episodes=2)
    assert len(texts) == len(set(texts)) > 2
    assert texts == collect_vocabulary([env_id], episodes=2)
    assert texts != collect_vocabulary([env_id], episodes=4, seed=2)


def test_a_vocabulary_has_the_rules_on_request_and_needs_episodes():
    rules = gym.make(EASY, rules="system").unwrapped.system_prompt
    assert rules not in collect_vocabulary([EASY], episodes=1)
    assert rules in collect_vocabulary([EASY], episodes=1, rules=True)
    with pytest.raises(ConfigError, match="episodes"):
        collect_vocabulary([EASY], episodes=0)


class Parrot(gym.Env[str, str]):
    """A foreign text environment: no players, no rules, no limit of its own."""

    observation_space = AnyText(20)
    action_space = gym.spaces.Text(5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "Hello", {}

    def step(self, action):
        return f"You said {action}", 0.0, False, False, {}


@pytest.mark.parametrize(("limit", "turns"), [(3, 3), (None, 1_000)])
def test_a_foreign_environment_is_played_in_its_own_action_space(limit, turns, monkeypatch):
    monkeypatch.setattr(gym.envs.registration, "registry", {})
    gym.register("Parrot-v0", Parrot, max_episode_steps=limit)
    texts = collect_vocabulary(["Parrot-v0"], episodes=1)
    replies = [text for text in texts if text.startswith("You said ")]
    assert texts[0] == "Hello"
    assert turns * 0.8 < len(replies) <= turns
    assert all(text.removeprefix("You said ") in Parrot.action_space for text in replies)
    assert texts == collect_vocabulary(["Parrot-v0"], episodes=1)


TOKENIZER = base_tokenizer()
PIECES = TokenTexts(TOKENIZER)


@given(st.text(max_size=40))
def test_the_pieces_are_the_text(text):
    ids = TOKENIZER.encode(text)
    assert len(PIECES(ids)) == len(ids)
    assert "".join(PIECES(ids)) == text


def test_a_character_of_several_tokens_belongs_to_the_last_one():
    ids = TOKENIZER.encode("a😀b")
    assert len(ids) == 6
    assert PIECES(ids) == ["a", "", "", "", "😀", "b"]
    assert PIECES([*TOKENIZER.encode("go"), TOKENIZER.eos_token_id])[-1] == "<|endoftext|>"


@pytest.mark.parametrize("count", [1, 3, 50])
def test_invalid_bytes_are_shown_and_decoded_a_few_at_a_time(count, monkeypatch):
    lone = TOKENIZER.encode("😀")[1]  # a byte that never begins a character
    looked, decode = [], TokenTexts._decode

    def noted(self, ids):
        looked.append(len(ids))
        return decode(self, ids)

    monkeypatch.setattr(TokenTexts, "_decode", noted)
    assert "".join(PIECES([lone] * count)) == "\ufffd" * count
    assert max(looked) <= 16
