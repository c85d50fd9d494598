"""Replies as chat models write them: reasoning marks, templates, objects, lists, other scripts."""

import random

import gymnasium as gym
import pytest

from llm_gym.envs.shared.directions import find_directions
from llm_gym.envs.tool_use import tool_env
from llm_gym.reading import answer
from llm_gym.reading.markup import visible
from llm_gym.reading.moves import WINDOW, judge


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
    "{}<|im_end|>",
    "{}</s>",
    "<|im_start|>{}<|im_end|>\n<|endoftext|>",
    "[INST]{}[/INST]",
]


@pytest.mark.parametrize("reply", THOUGHTS)
def test_no_model_is_held_to_what_it_only_thought_or_to_its_template(reply):
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
def test_a_thought_that_never_ends_says_nothing(reply):
    assert read("Maze", reply) == (None, False)


@pytest.mark.parametrize(
    ("name", "reply", "move"),
    [
        # dressing
        *(("Wordle", reply, "crane") for reply in (
            "crane \U0001f44d", "crane :)", "\ufeffcrane\u200b", "<b>crane</b>",
            "\u300ccrane\u300d",
            "C-R-A-N-E", "c r a n e", "=> crane", "Answer - crane", "Definitely crane.",
            "crane is a good starting word.", "Let me try crane instead of slate.",
        )),
        # numbers
        ("GuessTheNumber", "\uff17", "7"),
        ("GuessTheNumber", "\u0667", "7"),
        ("GuessTheNumber", r"\(7\)", "7"),
        ("GuessTheNumber", "\u7b54\u3048\u306f7\u3067\u3059\u3002", "7"),
        ("GuessTheNumber", "The remaining range is 11-20, so 18.", "18"),
        ("GuessTheNumber", "It is from 11 to 20. I guess 15.", "15"),
        ("GuessTheNumber", "My guess is 18. If it is too low, I will guess 19 next.", "18"),
        ("LetterCounting", "Let me count: 1, 2, 3, 4, 5. So there are 5.", "5"),
        # objects
        ("Maze", '{\n  "why": "it is open",\n  "move": "down"\n}', "down"),
        ("Maze", '{"direction": "down"}', "down"),
        ("Maze", '{"next_move": "down", "confidence": 0.9}', "down"),
        ("Wordle", '{"word": "crane"}', "crane"),
        ("Minesweeper", '{"action": "reveal", "row": 3, "col": 1}', "reveal 3 1"),
        ("Sudoku", '{"row": 1, "col": 3, "digit": 3}', "1 3 3"),
        # parts of a move
        *(("Sudoku", reply, "1 3 3") for reply in (
            "R1C3=3", "r1c3 = 3", "(1,3) = 3", "(1, 3) -> 3", "3 at (1, 3)",
            "row=1, col=3, digit=3", "Cell (1,3) should be 3.", "1-3-3",
            "In row 1, column 3, the only possible digit is 3.",
        )),
        *(("Mastermind", reply, "4 2 1 3") for reply in (
            "4-2-1-3", "Guess: 4-2-1-3", "4 | 2 | 1 | 3", "I'd go with 4, 2, 1 and 3.",
        )),
        # one preferred to another
        *(("Maze", reply, "down") for reply in (
            "I'd rather go down than up.", "down rather than up", "I prefer down over up.",
            "down instead of up", "Moving up would hit a wall, so I'll move down.", "\u2193",
            "\u2b07\ufe0f", "move_down", "~~up~~ down",
            "I have thought about up, but I'll go with down.",
        )),
        # what stands beside a move, and neither denies nor doubts it
        *(("FrozenLake", reply, "down") for reply in (
            "Action: down\nReason: no, the hole is right.", "Action: down\nHole below: no.",
            "Action: down\nNo, there is no hole there.", "Right. Hold on, down is better.",
            "Moving down gets around both holes.", "I move down along both walls.",
            "My first instinct is down.", "My first thought is to go down.",
            "My first instinct was up, but down.", "As initially planned I go down.",
            "I am leaning towards down.", "Moving down is safe from the trap.",
            "Down keeps me from losing.",
            "I move down away from death", "Let's undo the detour by going down.",
            "I avoid the hole by going down.", "Down: it is not a hole, so safe.",
            "I go down. Wait, that's not a hole.",
            "e.g. I could go right, but I go down.",
        )),
        ("Wordle", "Let's try crane and see both vowels.", "crane"),
        ("Wordle", "Initially I try crane.", "crane"),
        ("Blackjack", "Stand is the lesser of both evils.", "stand"),
        ("Bandit", "I have not tried purple yet, so I'll try purple.", "purple"),
    ],
)  # fmt: skip
def test_natural_replies_are_read(name, reply, move):
    assert read(name, reply) == (move, True)


@pytest.mark.parametrize(
    "reply",
    ["{'from': 'X', 'to': 'Y'}", '{"from": "X", "to": "Y"}', "X-Y", "From: X, To: Y",
     "I take the disk from X and put it on Y.", "from=X to=Y"],
)  # fmt: skip
def test_pegs_are_read_however_they_are_joined(reply):
    env = gym.make("llm_gym/TowerOfHanoi-v0")
    env.reset(seed=0)
    source, target = env.unwrapped.legal_moves()[0].split()
    info = env.step(reply.replace("X", source).replace("Y", target))[4]
    assert (info["valid_action"], info["move"]) == (True, f"{source} {target}")


@pytest.mark.parametrize(
    "reply",
    ["Options:\n- up\n- down", "1. up\n2. down", "up/down", "Answer: up / down", "up... or down?",
     "Up. Or maybe down.", "It would be unwise to go down.", "The opponent will probably go down.",
     "Both up and down.", "up and down are both fine", "up + down", "Down is a wall.",
     "down is the hole", "Down leads into a trap", "I was leaning towards down.",
     "My first instinct was down.", "My first instinct is up, but down.", "Avoid going down.",
     "I will not win by going down.", "Initially I would go down.", "Undo down.",
     "Before I go down, tell me more.", "\u4e0ddown", "Ich gehe nicht down.", "up and/or down"],
)  # fmt: skip
def test_lists_hedges_and_what_others_do_are_no_moves(reply):
    assert read("Maze", reply)[1] is False
    assert judge(reply, find_directions).move is None or "\n" in reply


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
def test_a_call_is_a_call_in_every_style(reply):
    assert read("SearchQA", reply) == ("search: Mila Farrow", True)
    if "\nsearch:" not in reply:
        assert read("SearchQA", reply, strict=True)[0] != "search: Mila Farrow"


@pytest.mark.parametrize(
    "name", ["TextGame", "CookingWorld", "TicTacToe", "GuessTheNumber", "Sudoku"]
)
def test_a_list_of_different_moves_is_no_move_and_of_the_same_one_is(name):
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
def test_the_last_call_of_the_players_own_turn_is_made(reply):
    assert read("SearchQA", reply) == ("search: Mila", True)


def test_an_answer_of_any_text_may_say_wait():
    show = "Wait, Wait, no: Don't Tell"
    env = gym.make("llm_gym/Dataset-v0", dataset=[{"prompt": "A show?", "answer": show}])
    env.reset(seed=0)
    assert env.step(f"It is {show}.\n<answer>{show}</answer>")[1] == 1.0


def test_a_call_that_is_given_as_the_answer_is_the_call():
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
def test_digits_of_every_script_are_digits_but_where_the_letter_counts(name, reply, move):
    assert read(name, reply) == (move, True)
    assert read(name, reply, strict=True)[1] is False


def test_a_query_is_run_without_what_surrounds_it():
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


def test_code_that_talks_of_calls_is_code():
    code = 'python: print({"name": "answer", "arguments": {"n": 3}})'
    assert read("MathPython", code)[0] == code
    code = "```python\nanswer = int('7')\nprint(answer)\n```"
    assert read("MathPython", code)[0].startswith("python: answer = int")


@pytest.mark.parametrize("tag", ["action", "answer", "move", "guess"])
def test_a_tag_of_our_own_is_left_as_it_is_and_what_is_around_it_is_not(tag):
    move = f"<{tag}>up</{tag}>"
    assert visible(move) == move
    assert visible(f"{move}<|im_end|>") == visible(f"<s>{move}") == move
    assert visible(f"<think>down?</think>{move}") == visible(f"[THINK]down?[/THINK]{move}") == move


@pytest.mark.parametrize("name", ["Maze", "Sudoku", "Wordle"])
def test_of_a_long_reply_only_its_end_is_brought_into_our_script(name, monkeypatch):
    lengths = []
    monkeypatch.setattr(answer, "plain_text", lambda text: lengths.append(len(text)) or text)
    read(name, "\uff17" * 1_000_000)
    assert 0 < max(lengths) <= WINDOW


def test_a_call_that_is_too_long_is_not_weighed(monkeypatch):
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
def test_nothing_that_is_put_together_of_marks_upsets_a_game(name):
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
