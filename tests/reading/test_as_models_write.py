"""Replies as chat models write them: reasoning marks, templates, objects, lists, other scripts."""

import random

import gymnasium as gym
import pytest

from llm_gym.envs.tool_use import tool_env
from llm_gym.reading import answer
from llm_gym.reading.markup import visible
from llm_gym.reading.moves import WINDOW


def read(name, reply, seed=0, **settings):
    """Return what was read, and whether it was played."""
    env = gym.make(f"llm_gym/{name}-v0", **settings)
    env.reset(seed=seed)
    info = env.step(reply)[4]
    return info["move"], info["valid_action"]


THOUGHTS = [
    "<think>up?</think>{}",
    "<thinking>up?</thinking>\n{}",
    "up it is</thinking>{}",
    "<reasoning>Not up.</reasoning>{}",
    "<scratchpad>up\n</scratchpad>\n{}",
    "<reasoning>up seems best <answer>{}</answer>",
    "[THINK]up?[/THINK]{}",
    "\u25c1think\u25b7up?\u25c1/think\u25b7{}",
    "<seed:think>up</seed:think>{}",
    "<|begin_of_thought|>up<|end_of_thought|>{}",
    "<|channel|>analysis<|message|>up?<|end|><|start|>assistant<|channel|>final<|message|>{}",
    "analysisLet me go up.assistantfinal{}",
    "commentary Let me go up assistantfinal{}",
    "{}<|im_end|>",
    "{}</s>",
    "<|im_start|>{}<|im_end|>\n<|endoftext|>",
    "[INST]{}[/INST]",
]


@pytest.mark.parametrize("reply", THOUGHTS)
def test_thoughts_and_template_tokens_are_not_read(reply):
    move, played = read("Maze", reply.format("down"))
    assert played
    assert move == "down"
    query = reply.format("search: Mila")
    if "<answer>" not in reply:
        assert visible(query).strip().lower().endswith("search: mila")


@pytest.mark.parametrize(
    "reply",
    ["<thinking>down", "<|channel|>analysis<|message|>down", "[THINK]down", "<reasoning>down"],
)
def test_an_unclosed_thought_has_no_move(reply):
    assert read("Maze", reply) == (None, False)


@pytest.mark.parametrize(
    "reply",
    ['search("Mila Farrow")', "search(query='Mila Farrow')", "<search>Mila Farrow</search>",
     '{"tool": "search", "input": "Mila Farrow"}', "**search:** Mila Farrow",
     '{"name": "search", "arguments": {"query": "Mila Farrow"}}', "search - Mila Farrow",
     '<tool_call>\n{"name": "search", "arguments": {"query": "Mila Farrow"}}\n</tool_call>',
     "Action: search\nAction Input: Mila Farrow", "Search query: Mila Farrow",
     'I will search "Mila Farrow"', "`search: Mila Farrow`", "search: Mila Farrow<|im_end|>",
     "Here it is:\n\n```\nsearch: Mila Farrow\n```\nThat should do."],
)  # fmt: skip
def test_a_tool_call_is_read_in_every_style(reply):
    assert read("SearchQA", reply) == ("search: Mila Farrow", True)
    if "\nsearch:" not in reply:
        assert read("SearchQA", reply, strict=True)[0] != "search: Mila Farrow"


@pytest.mark.parametrize(
    "name", ["TextGame", "CookingWorld", "TicTacToe", "GuessTheNumber", "Sudoku"]
)
def test_a_list_of_different_moves_is_refused_and_of_one_move_is_read(name):
    env = gym.make(f"llm_gym/{name}-v0")
    env.reset(seed=0)
    first, second = env.unwrapped.legal_moves()[:2]
    assert read(name, f"1. {first}\n2. {second}")[1] is False
    assert read(name, f"- {first}\n- {first}")[1] is True
    assert read(name, f"1. I look around.\n2. {first}")[1] is True


@pytest.mark.parametrize(
    "reply",
    ["Action: search: Norvik\n\nActually, no. Action: search: Mila",
     "I choose search: Norvik. No wait, I choose search: Mila.",
     "I'd go with search: Norvik. On second thought, search: Mila.",
     "Action: search\nAction Input: Mila\nObservation: Mila is ...\nAction: search\n"
     "Action Input: Norvik",
     "search: Mila<|im_end|>\n<|im_start|>user\nNo.<|im_end|>\nsearch: Norvik"],
)  # fmt: skip
def test_the_last_call_of_the_players_own_turn_counts(reply):
    assert read("SearchQA", reply) == ("search: Mila", True)


def test_an_answer_may_contain_the_word_wait():
    show = "Wait, Wait, no: Don't Tell"
    env = gym.make("llm_gym/Dataset-v0", dataset=[{"prompt": "A show?", "answer": show}])
    env.reset(seed=0)
    assert env.step(f"It is {show}.\n<answer>{show}</answer>")[1] == 1.0


def test_a_call_inside_answer_tags_is_read():
    for reply in (
        "<answer>search: Mila</answer>",
        "**Answer: search: Mila**",
        "Answer - search: Mila",
    ):
        assert read("SearchQA", reply) == ("search: Mila", True)
    assert read("SearchQA", "search: Mila, search: Norvik")[1] is False


@pytest.mark.parametrize(
    ("name", "reply", "move"),
    [
        ("TicTacToe", "\uff18", "8"),
        ("ConnectFour", "\uff14", "4"),
        ("Count", "\u0664", "4"),
        ("Mastermind", "\u0661 \u0662 \u0663 \u0664", "1 2 3 4"),
    ],
)
def test_digits_of_every_script_are_read_but_not_in_strict_mode(name, reply, move):
    assert read(name, reply) == (move, True)
    assert read(name, reply, strict=True)[1] is False


def test_a_query_is_run_without_the_markup_around_it():
    query = "SELECT count(*) FROM loans WHERE id > 0"
    for reply in (
        f"sql: `{query}`",
        f'sql: "{query}"',
        f"**sql:** {query}",
        f"Here:\n\n```\nsql: {query}\n```\n\nLet me know!",
        f'{{\n "action": "sql: {query}"\n}}',
        f"sql: {query}</s>",
        f"I'm going to go with **sql: {query}** this time.",
        f"`sql: {query}` is my choice.",
        f"<code>sql: {query}</code>",
        f"My call (sql: {query}).",
        f"sql: {query} \u2705",
        f"sql: {query}\u200b",
    ):
        env = gym.make("llm_gym/TextToSQL-v0")
        env.reset(seed=0)
        assert not env.step(reply)[0].startswith("SQL error"), reply


def test_code_that_contains_a_call_stays_code():
    code = 'python: print({"name": "answer", "arguments": {"n": 3}})'
    assert read("MathPython", code)[0] == code
    code = "```python\nanswer = int('7')\nprint(answer)\n```"
    assert read("MathPython", code)[0].startswith("python: answer = int")


@pytest.mark.parametrize("tag", ["action", "answer", "move", "guess"])
def test_our_tags_stay_and_the_text_around_them_is_stripped(tag):
    move = f"<{tag}>up</{tag}>"
    assert visible(move) == move
    assert visible(f"{move}<|im_end|>") == visible(f"<s>{move}") == move
    assert visible(f"<think>down?</think>{move}") == visible(f"[THINK]down?[/THINK]{move}") == move


@pytest.mark.parametrize("name", ["Maze", "Sudoku", "Wordle"])
def test_only_the_end_of_a_long_reply_is_normalised(name, monkeypatch):
    lengths = []
    monkeypatch.setattr(answer, "plain_text", lambda text: lengths.append(len(text)) or text)
    read(name, "\uff17" * 1_000_000)
    assert 0 < max(lengths) <= WINDOW


def test_a_call_that_is_too_long_is_not_scanned(monkeypatch):
    weighed = []
    pattern = type("Pattern", (), {"search": lambda self, text: weighed.append(len(text))})()
    monkeypatch.setattr(tool_env, "_TAIL", pattern)
    read("SearchQA", "search: " + "9, " * 300_000)
    assert max(weighed, default=0) <= 4000


PIECES = [
    "<think>", "</think>", "[THINK]", "<|channel|>", "<|im_end|>", "</s>", "~~", "{", "}",
    '"action"', ":", "\\boxed{", "\\(", "(1, 2)", "A to C", "7", "\uff17", "up", "or", "not",
    "over", "than", "- ", "1. ", "\n", "```", "search(", "answer: ", "sql: ", "<search>",
    "Action: ", "a", "\u3067", ":)", "\u200b", "\ud800", ".", "/", "|", "\u2192",
]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["Maze", "Sudoku", "TowerOfHanoi", "Wordle", "TextToSQL", "Memory"]
)
def test_random_sequences_of_markup_never_raise(name):
    env, draw = gym.make(f"llm_gym/{name}-v0"), random.Random(name)
    for reply in [
        "\\boxed{. ",
        "answer: :) :)\nx",
        "Action: .",
        "```\n.\n```",
        "<answer>*</answer>",
    ]:
        env.reset(seed=0)
        assert isinstance(env.step(reply)[0], str)
    for seed in range(400):
        env.reset(seed=seed % 7)
        reply = "".join(draw.choice(PIECES) for _ in range(draw.randrange(1, 12)))
        assert isinstance(env.step(reply)[0], str)
