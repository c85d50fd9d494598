"""The words by which a sentence says, denies, doubts or only mentions a move.

Nothing but patterns; ``prose`` decides with them. All are looked for within one sentence, which is
bounded.
"""

from __future__ import annotations

import re

CROSSED_OUT = "\u274c\u2716\u2717\u2718\u26d4\U0001f6ab\U0001f44e"
"""Signs that say no."""
SENTENCES = re.compile(r"(?<=[.!?;])(?<!\bvs\.)(?<!e\.g\.)(?<!i\.e\.)[\"'\u201d\u2019)*_]*\s+|\n+")
_OBSTACLE = r"(?:wall|hole|dead end|nowhere|trap|cliff|corner(?! case))\b"
_NOT = (
    rf"(?:\b(?:not|isn'?t)\b(?! (?:an? |the )?{_OBSTACLE})"
    r"|\b(?:never|don'?t|do n't|doesn'?t|didn'?t|won'?t|can'?t|cannot|aren'?t|ain'?t"
    r"|wasn'?t|shouldn'?t|wouldn'?t|mustn'?t|couldn'?t|neither|nor|unable|far from"
    r"|rul(?:e|ed|ing) out"
    r"|nicht|kein\w*|niemals|pas|jamais|nunca|n\u00e3o|nie|\u043d\u0435|\u043d\u0435\u0442)\b"
    r"|[\u4e0d\u6ca1\u522b\u5225\u52ff]|\u306a\u3044|\u307e\u305b\u3093|\u3060\u3081|\uc54a|\ubabb"
    rf"|\uc544\ub2c8|[{CROSSED_OUT}])"
)
DENIED_BEFORE = re.compile(
    rf"{_NOT}|\b(?:no|without|refus\w+|declin\w+|instead of|rather than|other than|except"
    r"|anything but|everything but|all but|nothing but|against|reject\w*|dismiss\w*"
    r"|forbid\w*|disagree\w*|hate|dislike|forget|opposite of"
    # but "I avoid the hole by going up"
    r"|(?:avoid\w*|stop|skip\w*|ignor\w+|cancel\w*|undo|abandon\w*|discard\w*)(?!.*\bby\b))\b"
    r"|\b(?:unwise|foolish|mistake|bad idea|pointless|useless|dangerous|risky|wrong"
    r"|silly|futile|impossible|illegal|suicid\w+|fatal)\b[^,;]{0,20}\bto\b",
    re.IGNORECASE,
)
DENIED_AFTER = re.compile(
    rf"{_NOT}|\bno (?:good|use|way|option|longer|choice|go)\b|\bno\W{{0,4}}$"
    r"|(?<!from )(?<!avoid )(?<!avoids )\b(?:blocked|impossible"
    r"|illegal|invalid|wrong|incorrect|bad|mistake|dangerous|unsafe"
    r"|pointless|useless|out of the question|forbidden|worse|worst|taken|(?:is|are) off"
    r"|off the table|lose|loses|loss|losing|fail\w*|killed|death|deadly|terrible|unusable|foolish"
    r"|unwise|risky|(?:avoid|reject|refus|dismiss|ignor|cancel|discard|abandon|skipp|exclud)ed)\b"
    r"|\b(?:hits?|bumps?|runs?|leads?|falls?|walks?|takes? me|puts? me|is|'s|be|see|=)"
    r"(?:(?!\b(?:no|not|safe|free|away|clear|past|around)\b|n't)[^,;]){0,24}"
    rf"\b{_OBSTACLE}",
    re.IGNORECASE,
)
PURPOSE = re.compile(r"[\s*_\"'`\u201d\u2019]*(?:in order |so as )?to\b", re.IGNORECASE)
"""After a move: what it is for, and that may be to avoid something."""
DOUBT = re.compile(
    r"\b(?:or|either|maybe|perhaps|might|may|possibly|could|unsure|not sure|uncertain|undecided"
    r"|don'?t know|do not know|no idea|what about|how about|wonder\w*|torn|between|versus|vs"
    r"|alternatively|whether|(?<!without )hesitat\w*|can'?t decide|cannot decide|any of)\b",
    re.IGNORECASE,
)
ASIDE = re.compile(
    r"\b(?:if|unless|when|whenever|suppose|imagine|went|moved|tried|played|guessed|previous(?:ly)?"
    r"|you (?:play|move|go|push|press|slip|draw)|last time|last turn|earlier|already|was"
    r"|were|had|used to|you said|you told|said|before (?:i|we|you)|tell me|yesterday"
    r"|(?:i|we) (?:first )?thought|wanted|mentions?|such as"
    r"|(?:initially|originally|at first)(?!,? (?:planned|let|i (?!would|chose|picked|liked)))"
    r"|example says|you (?:chose|took|did)"
    r"|(?:they|he|she) (?:chose|choose|say|took|did)|some (?:players|people|would)"
    r"|considered|considering|contemplated|tempted|(?:thought|thinking|think) (?:about|of)"
    r"|someone|somebody|(?<!\bi am )(?<!\bi'm )lean(?:s|ing)|tilt(?:s|ed|ing)|falling"
    r"|drift(?:s|ing)"
    r"|(?:opponent|enemy|rival) (?:\w+ ){0,2}?(?:will|would|can|could|may|might|plays?|takes?|goes"
    r"|wants?|threatens?|likely|probably))\b",
    re.IGNORECASE,
)
PAST = re.compile(
    r"[\s*_\"'`]*(?:was|were|ha[sd] (?:already )?been|got|is what you)\b", re.IGNORECASE
)
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
ALSO = re.compile(
    r"[\s,*_`\"'\u201d\u2019]*(?:as well as|(?:and )?(?:then|next|later|after (?:that|this)"
    r"|afterwards)|followed by|\+|&|[-=]?>|\u2192)[\s,*_`\"'\u201c\u2018]*",
    re.IGNORECASE,
)
"""Between two moves: a plan of both."""
LEADS = re.compile(r"[\s*_`\"']*(?:leads?|gets?|brings?|takes?)\b", re.IGNORECASE)
"""After a plan: what it would bring."""
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
OR_NOT = re.compile(r"[\s*_\"'`.,\u2026-]*or not\b", re.IGNORECASE)
OR_ELSE = re.compile(r"[\s*_\"'`.\u2026-]*(?:or|alternatively)\b", re.IGNORECASE)
CONDITION = re.compile(r"[\s*_\"'`]*(?:if|when|unless|should (?:it|that|this))\b", re.IGNORECASE)
EXAMPLE = re.compile(r"\W{0,4}(?:for )?(?:example|instance|e\.g)\b(?!\s+of)", re.IGNORECASE)
CONCLUSION = re.compile(r"\b(?:so|therefore|thus|hence)\b|;", re.IGNORECASE)
_HOLD = r"(?:wait|hold on|hang on)"
TAKEN_BACK = re.compile(
    r"(?:[.,;!\u2026\u2014-]|\n)[\s\"'*_]{0,4}"
    r"(?:(?:oh|but|ah|uh|um|hm+|and|sorry)[ ,.\u2026]{1,4}){0,2}"
    rf"(?:(?:(?P<pause>{_HOLD}(?!\W{{1,4}}(?:no|actually|not)\b))"
    rf"|(?:(?:no|actually)[ ,.\u2026]{{1,4}}){{0,2}}(?:{_HOLD}|scratch that|strike that"
    r"|never ?mind|on second thoughts?|correction|oops|my (?:mistake|bad)"
    r"|i take (?:that|it) back|(?:just|only) (?:kidding|joking)"
    r"|let me correct(?: myself| that)?))\b"
    r"(?=\s{0,3}(?:[^\w\s]|no\b|actually\b|that\b|i\b|i'|not\b|this\b|$))"
    r"|actually[ ,]{1,3}no(?=[,.:!\u2026\u2014])|no (?=actually)"
    r"|(?P<no>no)(?=[,.:!\u2026\u2014]|\s*\Z))"
    r"(?:[\s,.:!\u2026-]{1,4}(?:no|actually|scratch that)\b)*",
    re.IGNORECASE,
)
"""What was said before this no longer counts; after a mere pause or "no" only if more is said."""
CHECK = re.compile(r"\W{0,4}(?:let|i (?:need|want|have|should))\b", re.IGNORECASE)
"""At the start of a sentence: it looks again, and has not found anything yet."""
BETTER = re.compile(r"\b(?:better|safer)\b", re.IGNORECASE)
INSTEAD = re.compile(r"\W{0,4}(?:actually|in the end|on reflection)\b", re.IGNORECASE)
"""At the start of a sentence: what it names replaces what was named."""
OPEN, CLOSE = tuple("\"'`*\u201c\u2018[<"), tuple("\"'`*\u201d\u2019]>")
