"""Phrasings of a move that the reader of replies must accept or refuse.

``{m}`` is a legal move and ``{n}`` another one, as the game's random player writes them. A hash of
its text puts each phrasing into one of two halves; only one half was used to tune the reader.
"""

from __future__ import annotations

import hashlib

ACCEPTED = (
    # as it is, in dressing
    "{m}", "{M}", "{m}.", "{m}!", '"{m}"', "'{m}'", "`{m}`", "**{m}**", "*{m}*", "[{m}]", "({m})",
    "- {m}", "> {m}", "**{m}.**", '"{m}."', "\n\n{m}\n\n", "“{m}”", "__{m}__",
    # with a marker
    "<action>{m}</action>", "<Action>{m}</Action>", "<action>{m}", "<answer>{m}</answer>",
    "<answer>\n{m}\n</answer>", "<move>{m}</move>", "\\boxed{{{m}}}", "\\boxed{{\\text{{{m}}}}}",
    "$\\boxed{{{m}}}$", '{{"action": "{m}"}}', "{{'action': '{m}'}}", '{{"move": "{m}"}}',
    '```json\n{{"action": "{m}"}}\n```', "```\n{m}\n```", "```text\n{m}\n```", "Action: {m}",
    "Move: {m}", "Answer: {m}", "**Action:** {m}", "**Action**: {m}", "Action: **{m}**",
    "Final answer: {m}", "My move: {m}", "Next move: {m}.", "Action:\n{m}", "### Action: {m}",
    "Thought: this looks good.\nAction: {m}", "action = {m}", "ACTION: {m}", "My answer: `{m}`",
    # in a sentence
    "I will {m}.", "I'll {m}.", "I choose {m}.", "I would say {m}.", "My move is {m}.",
    "My next move is: {m}", "The answer is {m}.", "The correct answer is: {m}.",
    "The best move is {m}.", "The best move here is **{m}**.", "I pick {m} as my move.",
    "Let's go with {m}.", "Let me try {m}.", "I think the best move is {m}.", "So my move is {m}.",
    "Okay, {m}.", "Sure! My move is {m}.", "I am going with {m}.", "I'd go with {m}.",
    "{m} is my move.", "{m} is the best move.", "Therefore, I choose {m}.",
    # with reasons
    "{m}, because it seems best.", "{m} because it seems best.",
    "{m}\n\nThis is the best option at this point.", "{m}\nExplanation: it seems best.",
    "I choose {m} because it brings me closer to the goal.", "I considered everything. {m}.",
    "First I looked at what I know.\n{m}", "First I looked at what I know.\n\n**{m}**",
    "Here is my reasoning: it is a good start.\nMy move: {m}",
    "After some thought, my answer is {m}.", "Since it seems best, I choose {m}.",
    "I want to do well, so my move is {m}.", "It is my turn, so I choose {m}.",
    # thinking and echoes
    "<think>Hm, {n}? Or {m}?</think>\n{m}", "Not sure yet... {n}?</think>{m}",
    "<think>{n} looks bad</think>I choose {m}.", "My move alone on the last line: {m}",
    "Write your move on the last line: {m}", "I will not {n}. I will {m}.",
    "Instead of {n}, I choose {m}.", "<action>{n}</action> Wait, no. <action>{m}</action>",
)  # fmt: skip
REFUSED = (
    # nothing
    "", "...", "I do not know.", "Hello! How can I help you today?", "Let me think about it.",
    "What should I do", "Sorry, I cannot do that.", "Action:", "<action></action>", "\\boxed{{}}",
    "<think>I choose {m}.</think>", "<think>{m}", "I need more information first.",
    "As a language model, I have no preference.",
    # two
    "{m} or {n}", "{m} or {n}.", "I choose {m} or {n}.", "Either {m} or {n}.",
    "Maybe {m}, maybe {n}.",
    "<action>{m}</action> or <action>{n}</action>", "My move is {m} or {n}.",
    "It is between {m} and {n}.", "I could go with {m}, or with {n}.", "Action: {m} or {n}",
    "I cannot decide between {m} and {n}.", "{m} / {n} ?", "<answer>{m} or {n}</answer>",
    # doubt
    "Perhaps {m}.", "Maybe {m}.", "It might be {m}.", "I am not sure about {m}.",
    "I wonder whether {m} would help.", "I may choose {m}, or something else.",
    # denial
    "Not {m}.", "I will not {m}.", "I won't choose {m}.", "Don't {m}.", "Anything but {m}.",
    "I refuse to choose {m}.", "My move is not {m}.", "I would never choose {m}.",
    "{m} is a bad move.", "{m} would be a mistake.", "Avoid {m}.", "The answer is not {m}.",
    # question
    "Should I choose {m}?", "Is it {m}?", "What about {m}?", "Would {m} be a good move?",
    "Do you want me to choose {m}?", "My move is {m}, right?", "{m}, or not?",
    # a condition, or the past
    "If I choose {m}, I lose.", "You said I had chosen {m} before.",
)  # fmt: skip


def is_tuned(phrasing: str) -> bool:
    """Return whether a phrasing is in the half that was used for tuning.

    >>> sum(map(is_tuned, ACCEPTED + REFUSED)) - len(ACCEPTED + REFUSED) // 2 in range(-15, 16)
    True
    """
    return hashlib.sha256(phrasing.encode()).digest()[0] % 2 == 0
