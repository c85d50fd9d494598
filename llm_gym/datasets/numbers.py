r"""Reads the number in a text, as people and models write it.

There must be exactly one number: if several were accepted, a model would learn to list them. The
derivation of a result does not count: after ``####``, a ``\boxed{}``, "the answer is" or an equals
sign, only the text after the last of them is read.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice

from llm_gym.reading.formats import parse_boxed
from llm_gym.reading.moves import DENIED, fold, no_results

_DIGITS = 40  # of a number, before or after the point; more is refused rather than computed with
MOST = 10 ** (_DIGITS // 2)
"""What is below this, above and below the line, is written in few enough digits to be read."""
_FRAC = re.compile(r"([-\u2212]?)\\[dt]?frac\{(\d{1,40})\}\{(\d{1,40})\}")
_RESULT = re.compile(r"\banswer\s{0,9}(?:is|:|=)", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?<![\w\u221a])(?:(?P<sign>[-+\u2212]?)[$\u20ac\u00a3\u00a5]\s?)?(?P<own_sign>[-+\u2212]?)"
    r"(?P<digits>\d[\d,]*(?:\.\d+)?|\.\d+)(?P<power>e[-+]?\d+)?"
    r"(?P<more>_\d|x\d|(?<=0)x[a-f]|e[-+]?\d|[\u00b2\u00b3\u00b9\u00bc-\u00be])?"
    r"(?:\s?/\s?(?P<under>\d+))?"
    r"(?:\s?(?P<scale>k|dozen|hundred|thousand|million|billion|trillion)s?\b)?"
    r"(?P<part>\s(?:and )?(?:a|one) (?:half|third|quarter)\b)?",
    re.IGNORECASE,
)
# Possessive (``*+``): where two parts could share what lies between them, a text that fits neither
# would be cut in every way before it is refused.
_BARE = re.compile(
    r"(?:(?![\\?\uff1f])[\W\d_]|\\(?![a-z]))*+"
    r"(?:\\[a-z]{3,8}\{(?:(?![\\?\uff1f])[\W\d_]|\\(?![a-z]))*+)?"
    r"\\?(?:e[-+]?\d++)?+\s?[a-z]{0,10}+[^\w]*+",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"(?:(?:\bnot|n't|\bnever|\bneither)\s+(?:\w+\s+){0,3}|\bif\s+(?!so\b)(?:\w+\s+){0,6})[^\w\s]{0,4}$",
    re.IGNORECASE,
)
_ASKED = re.compile(r"[^.!?\n]{0,200}[?\uff1f]")
_MOST_POWER = 999
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+|\d+")
_SCALES = {
    "k": 10**3,
    "dozen": 12,
    "hundred": 100,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}


def final_part(text: str) -> str:
    r"""Return what ``text`` gives as its result.

    >>> final_part("12 + 30 = 42"), final_part("So 6 boxes.\n#### 42"), final_part("42")
    (' 42', ' 42', '42')
    """
    _, mark, rest = text.rpartition("####")
    if mark:
        return rest
    if (boxed := parse_boxed(text)) is not None:
        return boxed
    start = max((found.end() for found in _RESULT.finditer(text)), default=0)
    return text[start:].rpartition("=")[2]


def parse_number(text: str) -> Fraction | None:
    r"""Return the one number that ``text`` gives, or None where there is none or more than one.

    Thousands separators, currency signs, a percent sign, units and a full stop are ignored.
    Fractions, exponents, "dozen" and "million" are understood.

    >>> [str(parse_number(text)) for text in ("1,000", "$3.50", "42.", "-3/4", r"\boxed{5 km}")]
    ['1000', '7/2', '42', '-3/4', '5']
    >>> [str(parse_number(text)) for text in ("5k", "5 dozens", "5 and a half")]
    ['5000', '60', 'None']
    >>> [parse_number(text) for text in ("12 or 13", "1,5", "3/0", "1_000", "0x10", "2e1000")]
    [None, None, None, None, None, None]
    """
    text = final_part(text)
    if "\\" in text or "{" in text:
        text = _FRAC.sub(r" \1\2/\3", text.replace("{,}", ","))
    found = list(islice(_NUMBER.finditer(text), 2))
    return _value(found[0]) if len(found) == 1 else None


def is_stated(text: str) -> bool:
    """Return whether ``text`` states its one number, instead of denying or asking it.

    >>> is_stated("The answer is 5."), is_stated("The answer is not 5."), is_stated("Is it 5 then?")
    (True, False, False)
    """
    text = final_part(text)
    found = _NUMBER.search(text)
    return found is None or not (
        _DENIED.search(text[max(0, found.start() - 100) : found.start()])
        or _ASKED.match(text, found.end())
    )


def find_values(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the numbers that a sentence names, as ``parse_number`` reads them.

    >>> [number for *_, number in find_values("3 + 4 = 7 boxes, for $3.50 each")]
    ['7', '$3.50']
    """
    skipped = no_results(text)
    for one in _NUMBER.finditer(text):
        if one.start() not in skipped and _value(one) is not None:
            number = one[0].rstrip(",")
            yield one.start(), one.start() + len(number), number


def is_bare(text: str) -> bool:
    r"""Return whether ``text`` is a number, a unit included, rather than a sentence about one.

    >>> [is_bare(text) for text in ("1,000", "$3.50", "5 km", r"\boxed{5}", "3 + 4 = 7")]
    [True, True, True, True, True]
    >>> [is_bare(text) for text in ("not 5", "5 is wrong", "5? No.", "\u043d\u0435 5", "5 fails")]
    [False, False, False, False, False]
    """
    return _BARE.fullmatch(text.strip()) is not None and DENIED.search(text) is None


def write_number(number: Fraction) -> str:
    """Return ``number`` in digits: whole, with a decimal point, or as a fraction.

    >>> write_number(Fraction(-7)), write_number(Fraction(7, 20)), write_number(Fraction(2, 3))
    ('-7', '0.35', '2/3')
    """
    if number.denominator == 1:
        return str(number.numerator)
    for decimals in range(1, _DIGITS):
        scaled = number * 10**decimals
        if scaled.denominator == 1:
            sign, digits = "-" * (number < 0), str(abs(scaled.numerator)).zfill(decimals + 1)
            return f"{sign}{digits[:-decimals]}.{digits[-decimals:]}"
    return f"{number.numerator}/{number.denominator}"


def _value(found: re.Match[str]) -> Fraction | None:
    whole, _, decimals = found["digits"].partition(".")
    whole, under = whole if decimals else whole.rstrip(","), found["under"] or "1"
    if found["more"] or found["part"] or (whole and not _GROUPED.fullmatch(whole)):
        return None  # 1_000, 0x10, 5², 5 and a half: the digits alone are another number
    if max(len(whole), len(decimals), len(under)) > _DIGITS or int(under) == 0:
        return None
    number = Fraction(int(whole.replace(",", "") + decimals or "0"))
    power = (found["power"] or "e0")[1:]
    if len(power) > _DIGITS or abs(int(power)) > _MOST_POWER:
        return None
    if shift := int(power) - len(decimals):
        number *= Fraction(10) ** shift
    if found["under"]:
        number /= int(under)
    if found["scale"]:
        number *= _SCALES[fold(found["scale"])]
    signs = (found["sign"] or "") + found["own_sign"]
    if len(signs) > 1:
        return None
    return number if signs in ("", "+") else -number
