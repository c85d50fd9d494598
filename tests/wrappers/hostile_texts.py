"""Two hundred hostile replies."""

import itertools

from llm_gym.evaluate.checker import HOSTILE

_PIECES = (
    "", "0", "1", "-1", "-0", "+1", "007", "1e400", "-1e400", "1e-400", "nan", "inf", "-inf", "0x1",
    "1_000", "1.5", ".5", "5.", "1,5", "[", "]", "[]", "{}", "[1", "1 2 3", "[0, 0]", "0 0 0 0 0 0",
    "[[[[1]]]]", "null", "true", "None", "¹", "٣", "𝟜", "9" * 400, "-" * 400, " ".join("0" * 400),
    "[" * 900, '{"a":' * 150, '{"a": NaN}', '{"action": 1}', '"', "\\", "\x00", "\r", "\u2028",
    "\ud800", "{0}", "%s", "__import__('os')", "left\x00", "up\u202e", "LEFT", "left right",
    "left,",
)  # fmt: skip
_SHAPES = ("{}", "my move: {}", "{}!", "<action>{}</action>", "Action: {}")

TEXTS = [*HOSTILE.values(), *_PIECES]
TEXTS += [
    shape.replace("{}", piece) for shape, piece in itertools.product(_SHAPES[1:], _PIECES[:40])
]
TEXTS = list(dict.fromkeys(TEXTS))[:200]
assert len(TEXTS) == 200
