"""The words by which a sentence says, denies, doubts or only mentions a move.

Nothing but patterns; ``prose`` decides with them. All are looked for within one sentence, which is
bounded.
"""

from __future__ import annotations

import re

SENTENCES = re.compile(r"(?<=[.!?;])[\"'\u201d\u2019)*_]*\s+|\n+")
_NOT = (
    r"(?:\b(?:not|never|no|don'?t|do n't|doesn'?t|didn'?t|won'?t|can'?t|cannot|isn'?t|aren'?t"
    r"|wasn'?t|shouldn'?t|wouldn'?t|mustn'?t|couldn'?t|neither|nor|without|avoid\w*|refus\w+|declin\w+"
    r"|instead of|rather than|other than|except|anything but|everything but|all but|nothing but"
    r"|unable|against|stop|skip\w*|rul(?:e|ed|ing) out|far from|reject\w*|dismiss\w*|forbid\w*"
    r"|nicht|kein\w*|niemals|pas|jamais|nunca|n\u00e3o|nie|\u043d\u0435|\u043d\u0435\u0442)\b"
    r"|[\u4e0d\u6ca1\u522b\u5225\u52ff]|\u306a\u3044|\u307e\u305b\u3093|\uc54a|\ubabb|\uc544\ub2c8)"
)
DENIED_BEFORE = re.compile(
    rf"{_NOT}|\b(?:unwise|foolish|mistake|bad idea|pointless|useless|dangerous|risky|wrong|silly"
    r"|futile|impossible|illegal|suicid\w+|fatal)\b[^,;]{0,20}\bto\b",
    re.IGNORECASE,
)
DENIED_AFTER = re.compile(
    rf"{_NOT}|\b(?:blocked|impossible|illegal|invalid|wrong|bad|mistake|dangerous|unsafe|pointless"
    r"|useless|out of the question|forbidden|worse|worst|taken|off the table|lose|loses|fails?"
    r"|terrible|unusable|foolish|unwise|risky)\b"
    r"|\b(?:hits?|bumps?|runs?|leads?|falls?|walks?|takes? me|puts? me)\b[^,;]{0,24}"
    r"\b(?:wall|hole|dead end|nowhere|trap|cliff|corner)\b",
    re.IGNORECASE,
)
DOUBT = re.compile(
    r"\b(?:or|either|maybe|perhaps|might|may|possibly|could|unsure|not sure|uncertain|undecided"
    r"|don'?t know|do not know|no idea|what about|how about|wonder\w*|torn|between|versus|vs"
    r"|alternatively|whether|hesitat\w*|can'?t decide|cannot decide|any of)\b",
    re.IGNORECASE,
)
ASIDE = re.compile(
    r"\b(?:if|unless|when|whenever|suppose|imagine|went|moved|tried|played|guessed|previous(?:ly)?"
    r"|you (?:play|move|go|push|press|slip|draw)|last time|last turn|earlier|already|was"
    r"|were|had|used to|you said|you told|said|before (?:i|we|you)|tell me|yesterday"
    r"|considered|considering|contemplated|tempted|(?:thought|thinking|think) (?:about|of)"
    r"|someone|somebody"
    r"|(?:opponent|enemy|rival) (?:\w+ ){0,2}?(?:will|would|can|could|may|might|plays?|takes?|goes"
    r"|wants?|threatens?|likely|probably))\b",
    re.IGNORECASE,
)
PAST = re.compile(r"[\s*_\"'`]*(?:was|were|has been|had been|got)\b", re.IGNORECASE)
"""After a move: it was made before."""
UNTRIED = re.compile(
    r"\b(?:not|never|n't|haven'?t|hasn'?t)\s+(?:yet\s+)?(?:been\s+)?(?:tried|tested|explored|used|pulled"
    r"|played|pressed|guessed|visited|seen|chosen|had)\b",
    re.IGNORECASE,
)
STRONG_BREAK = re.compile(
    r";|\s[-\u2013\u2014]+\s|\b(?:because|since|as|(?<!ing )(?<!all )but|so|while|although"
    r"|though|which|where|therefore|thus"
    r"|hence|given|for|after|actually|instead(?! of))\b",
    re.IGNORECASE,
)
BREAK = re.compile(rf",|:|\(|\bthen\b|{STRONG_BREAK.pattern}", re.IGNORECASE)
CUE = re.compile(
    r"\b(?:i|i'?ll|i'?d|i'?m|we|we'?ll|let'?s|let us|let me|please|going with|yes|okay|ok|sure)\b"
    r"|\b(?:move|action|answer|guess|choice|pick|option|decision|command|step|play|solution|result"
    r"|best|response|reply|last line|final|next|number|word|letter|total|value|count|sum)\b"
    r"[^,;]{0,60}(?:\b(?:is|be|would|should|will|are)\b|:|=)|=\s{0,3}$|\b(?:occurs?|appears?)\b|[:]\s{0,3}[*\"'`]{0,3}$",
    re.IGNORECASE,
)
STARTS = re.compile(r"[\s*_\"'`\u201c\u2018(\[-]*", re.IGNORECASE)
ABOUT_IT = re.compile(
    r"[\s*_\"'`\u201d\u2019]*(?:is|are|was|has|have|leads?|looks?|seems?|side|of|and|goes|contains?)\b",
    re.IGNORECASE,
)
MINE = re.compile(
    r"[\s*_\"'`\u201d\u2019,]*(?:is|would be|will be|it is|it'?s|seems|looks|sounds)\s+"
    r"(?:the\s+|my\s+|to\s+be\s+|like\s+){0,2}(?:best|right|my|next|good|correct|final|obvious|only|safest|answer|move|guess|choice"
    r"|action|way|what i)",
    re.IGNORECASE,
)
NEXT = re.compile(r"[\s,]*(?:and|then|and then)?[\s,]*", re.IGNORECASE)
# Between two moves: the first one is to be played and the second is not.
VERSUS = re.compile(
    r"[\s,*_`\"'\u201d\u2019]*(?:and |but )?(?:not|over|rather than|instead of|as opposed to"
    r"|in preference to)"
    r"(?:\s+(?:to|go|going|move|moving|the|with|at|on))*[\s*_`\"'\u201c\u2018]*",
    re.IGNORECASE,
)
THAN = re.compile(r"[\s,*_`\"'\u201d\u2019]*than(?:\s+\w+)?[\s*_`\"'\u201c\u2018]*", re.IGNORECASE)
PREFERRED = re.compile(r"\b(?:rather|sooner|prefer\w*)\b", re.IGNORECASE)
SLASH = re.compile(r"[\s*_`\"']*(?:[/|]|and/or)[\s*_`\"']*", re.IGNORECASE)
OR_ELSE = re.compile(r"[\s*_\"'`.\u2026-]*(?:or|alternatively)\b", re.IGNORECASE)
CONDITION = re.compile(r"[\s*_\"'`]*(?:if|when|unless|should (?:it|that|this))\b", re.IGNORECASE)
CONCLUSION = re.compile(r"\b(?:so|therefore|thus|hence)\b|;", re.IGNORECASE)
OPEN, CLOSE = tuple("\"'`*\u201c\u2018[<"), tuple("\"'`*\u201d\u2019]>")
