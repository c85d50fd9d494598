"""Replies with second thoughts: moves taken back, corrected, listed or crossed out.

Every phrasing is tried in every game. A clear reply is played; a doubtful one is refused.
"""

import gymnasium as gym
import pytest

from benchmarks.envs import replies
from llm_gym.envs.shared.word_list import find_words
from llm_gym.reading.calls import ToolCall
from llm_gym.reading.markup import visible
from llm_gym.reading.parsers import PARSERS, get_parser

READ = [
    # the last word counts
    "I'd say {n}... no wait, actually {m}.", "I choose {n}. No wait, I choose {m}.",
    "I choose {n}. Wait, that is wrong. I choose {m}.", "I'd go with {n}. On second thought, {m}.",
    "{n}. Actually, {m}.", "Action: {n}\n\nActually, no. Action: {m}",
    "Action: {n}\nCorrection: Action: {m}", "{n}, no, {m}.",
    "Wait, let me see. My move is {m}.", "{{'why': 'wait, no, not {n}', 'action': '{m}'}}",
    # only the first turn is the player's
    "{m}<|im_end|>\n<|im_start|>user\nOk.<|im_end|>\n<|im_start|>assistant\n{n}",
    "{m}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n{n}",
    "{m}\n\nUser: ok\nAssistant: {n}", "{m}\nHuman: What next?\nAssistant: {n}",
    "Thought: a\nAction: {m}\nObservation: it worked.\nThought: b\nAction: {n}",
    "<think>\nUser: he wants {n}\n</think>\n{m}",
    "Observation: all is clear.\nThought: I act.\nAction: {m}",
    # what a move is for, and what it spares, does not deny it
    "My move is {m} in order to not get stuck.", "The best move is {m}, without hesitation.",
    # a second look that finds nothing takes nothing back, and neither does a "no" to something else
    "I choose {m}. Wait, let me double check. Yes, it is fine.",
    "\\boxed{{{m}}}\n\nWait, let me verify: it all fits. Yes.",
    "<answer>{m}</answer>\nWait, let me check. Yes, that's correct.",
    "<action>{m}</action>\nHang on, is it allowed? Yes.", "Action: {m}\nNo.",
    "Move: {m}\n\nRisk: no.", "Action: {m}\nAny trouble below: no.",
    "I choose {m}. Trouble: no. Safe: yes.", "Action: {m}\nNo, there is no trouble there.",
    "I choose {m}. No, really, I do.", "I choose {m}. No, I'm sure.",
    "Action: {n}. Wait, no, {m}.", "I choose {n}. Wait, no, {m}.",
    "I choose {n}. Wait, let me check. I choose {m}.",
    # containers
    "My move:\n```\n{m}\n```", "action: |\n  {m}",
]  # fmt: skip
REFUSED = [
    "{m}. Wait, no.", "{m}. No wait.", "Action: {m}. Never mind.", "{m}. No.",
    "Action: {m}\nNo, that is wrong.",
    "I choose {m}. Wait, that's a trap.", "<action>{m}</action>\nHold on, I see a trap.",
    "I choose {m}. Wait, no, that's wrong.", "{m}\nNever mind.",
    "<action>{m}</action>\nWait, that is wrong, let me think again.",
    "Action: {m}\nNo, scratch that.", "{m}. Just kidding!", "{m}... or not.",
    "<action>{m}</action>\n<action>{n}</action>", "Action: {m}\nAction: {n}",
    "Move 1: {m}\nMove 2: {n}", "{m}, and after that {n}.", "{m} as well as {n}.", "{m} vs. {n}",
    "{m} \u274c", "\u274c {m}", "\U0001f6ab {m}", "~~{m}~~", "**{m}?**", "{m}\uff1f",
    "For example: {m}", "e.g. {m}", "\u041d\u0435 {m}.", "\u4e0d\u8981 {m}", "Forget {m}.",
    "I disagree with {m}.", "I hate {m}.", "{m} is incorrect.", "I ain't going to {m}.",
    "I chose {m} before and it failed.",
]  # fmt: skip
# TextGame: "in order to" is something that things are put into. Countdown: a number alone is a
# move, and in a sentence none.
TOO_MUCH = {
    "TextGame": ["My move is {m} in order to not get stuck."],
    "Countdown": ["{m}, and after that {n}.", "{m} as well as {n}."],
}


@pytest.fixture(scope="module")
def states():
    names = [name for name in replies.families() if name not in replies.FREE]
    return [state for name in names for state in replies.states(name, 1)]


def misread(states, phrasing, is_good):
    """Return the games in which a phrasing is read wrong, and the result."""
    found = []
    for state in states:
        name = state.id.removeprefix("llm_gym/").removesuffix("-v0")
        result = state.play(replies.say(phrasing, state))
        if phrasing not in TOO_MUCH.get(name, ()) and not is_good(state, result):
            found.append((name, state.moves, result[4:]))
    return found


@pytest.mark.parametrize("phrasing", READ)
def test_the_last_stated_move_of_the_players_own_turn_counts(states, phrasing):
    assert not misread(
        states, phrasing, lambda state, result: result[:4] == state.play(state.moves[0])[:4]
    )


@pytest.mark.parametrize("phrasing", REFUSED)
def test_moves_taken_back_planned_crossed_out_or_mentioned_are_refused(states, phrasing):
    assert not misread(states, phrasing, lambda state, result: not result[3])


def test_a_move_in_its_own_tags_can_be_taken_back():
    env = gym.make("llm_gym/Maze-v0", action_format="tag")
    env.reset(seed=0)
    text, *_, info = env.step("<action>up</action>\nNo wait, that is a wall.")
    assert (info["valid_action"], info["reader"]) == (False, "denial")
    assert "takes back" in text


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("crane is great", ["crane"]),
        ("First crane, then slate", ["crane", "slate"]),
        ("crane then slate", ["crane", "slate"]),
        ("crane = death", ["crane", "death"]),
        ("My guess is crane and it fits", ["crane"]),
    ],
)
def test_neighbouring_words_are_all_found_or_none(sentence, words):
    assert [word for *_, word in find_words(sentence, (5,))] == words


def test_code_is_not_taken_for_a_turn_of_the_user():
    code = "user: int = 3\nprint(user)"
    assert visible(f"x = 1\n{code}").endswith(code)
    assert visible("<s>up</s> down") == "up</s> down"


A = '{"name": "add", "arguments": {"a": 1}}'
B = A.replace("1", "2")


def tag(call):
    return f"<tool_call>\n{call}\n</tool_call>"


@pytest.mark.parametrize("parser", ["hermes", "qwen", "auto"])
@pytest.mark.parametrize(
    "reply",
    [
        f"<think>{tag(B)}</think>{tag(A)}",
        f"<thinking>{tag(B)}</thinking>{tag(A)}",
        f"[THINK]{tag(B)}[/THINK]{tag(A)}",
        f"<reasoning>Or {tag(B)}?</reasoning>\n{tag(A)}",
        f"{tag(A)}<|im_end|>\n<|im_start|>user\nok<|im_end|>\n{tag(B)}",
        f"{tag(A)}\n<tool_response>\n1\n</tool_response>\n{tag(B)}",
        f"{tag(A)}<|eot_id|>{tag(B)}",
    ],
)
def test_calls_of_other_turns_and_thoughts_are_ignored(parser, reply):
    calls = get_parser(parser).parse(reply).calls
    assert [call.arguments for call in calls] == [{"a": 1}]


@pytest.mark.parametrize("reply", [f"```json\n{A}\n```", f"Sure:\n```\n{A}\n```\nDone."])
def test_auto_reads_a_call_in_a_code_fence(reply):
    assert get_parser("auto").parse(reply).calls[0].arguments == {"a": 1}
    assert not get_parser("auto").parse("```\n{x}\n```").calls


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize(
    "query",
    ["the <thought> tag", "<thinking>a</thinking> b", "</thinking>", "[THINK] a", "a <|im_end|> b",
     "<|channel|>final", "a <tool_response>", '"<thought>', "<think> \\"],
)  # fmt: skip
def test_markup_inside_an_argument_is_kept(name, query):
    parser, call = get_parser(name), ToolCall("search", {"query": query, "more": [query]})
    assert parser.parse(parser.render([call])).calls == (call,)


def test_code_with_the_word_thought_is_kept():
    code = "best = scores[thought]\nprint(best, seen[think], a < thinking > b)"
    assert visible(code) == code
