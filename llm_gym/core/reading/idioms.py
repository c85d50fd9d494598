"""Words that are no direction where they stand: "Turns left: 5", "the right move", "I give up"."""

from __future__ import annotations

import re

DIRECTIONS = frozenset({"up", "down", "left", "right"})
IDIOM = re.compile(
    r"\b(?:(?:turns|steps|lives|tries|time|nothing|anything|what)\s+(?:(?:is|are)\s+)?"
    r"|(?:moves|cells|\d+|(?:one|1|last)\s+(?:move|turn)"
    r"|(?:have|has|is|only)\s+(?:one|1)\s+(?:step|cell))\s+)left\b(?!\s+of)"
    r"|\bpull\w*\s+(?:\w+\s+){0,2}?(?:up|down|left|right)\b"
    r"|\bleft\s*:|\bleft\s+(?:over(?!\s+(?:to\s+)?(?:up|down|right))|to\s+(?:do|go|play)|with"
    r"|in the game)\b"
    r"|\b(?:the|a|all|that\'?s|is)\s+right\s+(?:move|answer|choice|way|one|thing|direction|order|place|decision|option)\b"
    r"|^\W*right,\s+(?=(?:i|i'?m|i'?ll|so|let'?s|the|my|now|then|that|we|this)\b)"
    r"|\ball\s+right\b|\bthat\'?s\s+right\b|\bright\s+(?:now|away|after|before|here|there"
    r"|next to|answer|corner|side|edge|order)\b"
    r"|\b(?:to|on|at|of|in)\s+(?:the|its|your|my)\s+(?:left|right)(?=\s+(?:of|side|is|there|corner|edge))"
    r"|\b(?:left|right|up|down)(?=\s*-\s*(?:left|right|up|down|most|hand)\b)|\b(?:top|bottom|upper|lower)[\s-]+(?:left|right)\b"
    r"|\b(?:end|ends|ended|set|sets|give|gives|gave|make|makes|open|opens|line|lines|speed|back|follow|pick|come|comes"
    r"|add|adds|us|use|used|clean|look|wake|stand|hurry|grow|sum|build|mess|break|wind|save|free|clear|sett|giv|mak|catch|keep)(?:s|ing)?\s+up\b"
    r"|\bup\s+(?:to\s+(?:\d|you|me|now|date|this|that)|until|against|front)\b|\bupside\b"
    r"|\b(?:break|slow|calm|sit|settle|write|cut|narrow|come|boil|track|hunt|count|let|shut)(?:s|ing)?\s+down\b",
    re.IGNORECASE,
)
