"""Tokenizers for small models that are trained from scratch.

``word_tokenizer`` has one token per word, so that a game costs a few dozen tokens on a laptop;
``byte_tokenizer`` reads and writes any text at one token per byte.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

from llm_gym.core.env import TextEnv
from llm_gym.core.infos import find_system_prompt
from llm_gym.core.settings import check_range
from llm_gym.episodes.play import play_reset, play_step
from llm_gym.registry.user_code import close_user_env
from llm_gym_agents.text import codec

PAD, BOS, EOS, UNK = "<pad>", "<bos>", "<eos>", "<unk>"
PROMPT = ">"
"""The mark before a reply in a plain transcript; always in the vocabulary."""
_MAX_TURNS = 1_000  # for environments without an end
_FEW_TURNS = 100  # maximum turns of an episode whose words are collected
FURTHER_EPISODES, FURTHER_SEED = 40, 10**6
"""Further episodes that test whether all words of an environment are known."""
COMMON = 0.02
"""A word in at least this share of an environment's texts is one token and never spelled."""
_WORDS = pre_tokenizers.Sequence(
    [
        pre_tokenizers.WhitespaceSplit(),
        pre_tokenizers.Split(Regex(r"[()]|[.,:;!?]+$"), behavior="isolated"),
    ]
)
"""Splits at white space, brackets off a word, and punctuation off its end."""
_NONSENSE = ("", "xyzzy", "xyzzy xyzzy")


def word_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    r"""Return a tokenizer whose tokens are the words of ``texts``; other words become ``<unk>``.

    Spaces and line breaks separate words and cost no token. Punctuation at the end of a word is a
    token of its own, so that a word is the same in a sentence and in a move. Decoding puts a space
    between two tokens.

    >>> tokenizer = word_tokenizer(["in hall", "Say north.", "go north"])
    >>> tokenizer.tokenize("in hall\nSay north.")
    ['in', 'hall', 'Say', 'north', '.']
    >>> tokenizer.decode(tokenizer("go \n north").input_ids, skip_special_tokens=True)
    'go north'
    """
    tokenizer = Tokenizer(models.WordLevel(_number(set(_count_words(texts))), unk_token=UNK))
    tokenizer.pre_tokenizer = _WORDS
    return _wrap(tokenizer, unk_token=UNK)


def piece_tokenizer(
    texts: Iterable[str], whole: Collection[str] | None = None
) -> PreTrainedTokenizerFast:
    r"""Return a tokenizer of the words of ``texts`` that spells everything else.

    A word with a digit is always spelled: there is no limit on numbers, and digits have a meaning.

    Args:
        texts: Texts whose letters are in the vocabulary.
        whole: The words that are one token; None takes the words of ``texts``.

    >>> tokenizer = piece_tokenizer(["push left", "speed -0.3"])
    >>> tokenizer.tokenize("push speed 0.31")
    ['push', 'speed', '0', '##.', '##3', '##1']
    >>> tokenizer.decode(tokenizer("push 0.31").input_ids, skip_special_tokens=True)
    'push 0.31'
    """
    seen = _count_words(texts)
    letters = {chr(code) for code in range(0x21, 0x7F)} | {each for word in seen for each in word}
    whole = {
        word
        for word in (seen if whole is None else whole)
        if not any(each.isdigit() for each in word)
    }
    vocabulary = _number(whole | letters | {f"##{letter}" for letter in letters})
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=UNK, max_input_chars_per_word=500))
    tokenizer.pre_tokenizer = _WORDS
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    return _wrap(tokenizer, unk_token=UNK)


def common_words(texts: Sequence[str], least: float = COMMON) -> set[str]:
    """Return the words that are in at least the share ``least`` of the texts.

    If an environment has unknown words, rare words are better spelled too.
    """
    return {word for word, count in _count_words(texts).items() if count >= least * len(texts)}


def _count_words(texts: Iterable[str]) -> Counter[str]:
    each = ({word for word, _ in _WORDS.pre_tokenize_str(codec.whole(text))} for text in texts)
    return Counter(itertools.chain.from_iterable(each))


def texts_of(env: gym.Env[str, str]) -> list[str]:
    """Return the observations and actions of 50 random episodes, each text once."""
    act = env.get_wrapper_attr("random_action")
    legal = env.get_wrapper_attr("legal_actions")
    texts: dict[str, None] = {}
    for episode in range(50):
        observation, info = play_reset(env, seed=episode)
        texts |= {find_system_prompt(env, info): None, observation: None}
        for _ in range(_FEW_TURNS):
            move = act()
            texts |= dict.fromkeys([*(legal() or ()), move])
            observation, _, terminated, truncated, _ = play_step(env, move)
            texts[observation] = None
            if terminated or truncated:
                break
    return [*map(codec.whole, texts)]


def byte_tokenizer() -> PreTrainedTokenizerFast:
    r"""Return a tokenizer whose ids 0 to 255 are the bytes of utf-8, then ``<pad>, <bos>, <eos>``.

    Decoding returns every text unchanged; ids that are not valid utf-8 become U+FFFD.

    >>> tokenizer = byte_tokenizer()
    >>> tokenizer("go\n", add_special_tokens=False).input_ids
    [103, 111, 10]
    """
    letters = {letter: byte for byte, letter in bytes_to_unicode().items()}
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([PAD, BOS, EOS])
    return _wrap(tokenizer)


def collect_vocabulary(
    env_ids: Iterable[str | EnvSpec], episodes: int = 100, *, rules: bool = False, seed: int = 0
) -> list[str]:
    """Return the texts of environments, each once, for ``word_tokenizer``.

    They come from ``episodes`` episodes of each environment, seeded ``seed``, ``seed + 1`` and so
    on. Every second episode is played at random with some unusable moves, the others by the oracle
    if there is one, so that the end of a game is seen too.

    Args:
        env_ids: Environments to play, or their specs. Those of the suite are made with
            ``rules="system"``.
        episodes: Of each environment.
        rules: Include the rules, for a model that is given them as a system prompt.
        seed: Of the first episode.
    """
    check_range("episodes", episodes, 1)
    texts: dict[str, None] = {}
    for env_id in env_ids:
        env = gym.make(env_id)
        if isinstance(env.unwrapped, TextEnv):
            env.close()
            env = gym.make(env_id, rules="system")
        for episode in range(seed, seed + episodes):
            for text in _play(env, episode):
                texts[text] = None
        if rules:
            texts[find_system_prompt(env)] = None
        close_user_env(env)
    return [*map(codec.whole, texts)]


def _play(env: gym.Env[Any, Any], seed: int) -> Iterable[str]:
    rng = np.random.default_rng(seed)
    game = env.unwrapped
    players = [getattr(game, name, None) for name in ("oracle_action", "random_action")]
    players = [*players[1 - seed % 2 :], env.action_space.sample]
    legal: Callable[[], list[str] | None] = getattr(game, "legal_actions", lambda: None)
    # Another seed than the game's, so that the space does not draw the same numbers.
    env.action_space.seed(int(np.random.default_rng((seed, 1)).integers(2**32)))
    observation, _ = env.reset(seed=seed)
    yield observation
    misplaced = list(_NONSENSE)  # an earlier move may be unusable later
    for _ in range(_MAX_TURNS):
        action = ""
        for player in filter(None, players):  # the first that the game implements
            with suppress(NotImplementedError):
                action = player()
                break
        actions = [*(legal() or ()), action]
        yield from actions
        misplaced += actions
        if isinstance(game, TextEnv) and seed % 2 == 0 and rng.random() < 0.2:
            action = misplaced[rng.integers(len(misplaced))]
        observation, _, terminated, truncated, _ = env.step(action)
        yield observation
        if terminated or truncated:
            break


def _number(words: set[str]) -> dict[str, int]:
    special = [PAD, BOS, EOS, UNK, PROMPT]
    return {word: at for at, word in enumerate([*special, *sorted(words - {*special})])}


def _wrap(tokenizer: Tokenizer, **special: str) -> PreTrainedTokenizerFast:
    """Return ``tokenizer`` for transformers; it begins every text with ``<bos>``."""
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        **special,
    )
