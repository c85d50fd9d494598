"""Mastermind's arithmetic: what a guess is answered, and which codes fit the answers so far.

A code is a tuple of numbers counted from 1. An answer is a guess with its black and white pegs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import eq

from llm_gym.envs.shared.memo import Memo

Code = tuple[int, ...]
Answer = tuple[Code, int, int]


_NUMBERS = Memo[Code, frozenset[int]](frozenset)


def pegs(guess: Code, code: Code) -> tuple[int, int]:
    """Return the black pegs (right number, right place) and white ones (right number only).

    Every number of the code answers for one number of the guess at most.

    >>> pegs((1, 1, 2, 2), (1, 2, 3, 4))
    (1, 1)
    """
    black, different = sum(map(eq, guess, code)), _NUMBERS[code]
    if len(different) == len(code):
        return black, len(different.intersection(guess)) - black
    rest = list(code)
    for number in guess:
        if number in rest:
            rest.remove(number)
    return black, len(code) - len(rest) - black


def fitting_codes(
    numbers: Sequence[int], length: int, repeats: bool, answers: Sequence[Answer]
) -> Iterator[Code]:
    """Yield the codes that would have got these ``answers``.

    A search in depth, place by place, that gives up on a beginning as soon as one answer cannot
    come true any more. So the first codes come quickly even where all of them are millions.

    >>> sorted(fitting_codes([1, 2, 3], 2, False, [((1, 2), 0, 1)]))
    [(2, 3), (3, 1)]
    """
    counts = [{n: guess.count(n) for n in numbers} for guess, _, _ in answers]
    # What each answer still needs: numbers in their place, and numbers in any place.
    needs = [(black, black + white) for _, black, white in answers]
    stack: list[tuple[Code, list[tuple[int, int]]]] = [((), needs)]
    while stack:
        start, needs = stack.pop()
        at = len(start)
        if at == length:
            yield start
            continue
        for number in _order(numbers, at):
            used = start.count(number)
            if used and not repeats:
                continue
            after = []
            for (guess, _, _), count, (black, shared) in zip(answers, counts, needs, strict=True):
                black -= guess[at] == number
                shared -= count[number] > used
                if not (0 <= black < length - at and 0 <= shared < length - at):
                    break
                after.append((black, shared))
            else:
                stack.append(((*start, number), after))


def _order(numbers: Sequence[int], place: int) -> Sequence[int]:
    """Return the numbers with another one last, which is tried first, for each place.

    A first guess of many different numbers tells more than one of equals: it saves a third of the
    guesses at a code of six, and most of the search.
    """
    turn = (3 * place) % len(numbers)
    return [*reversed(numbers[:turn]), *reversed(numbers[turn:])]
