"""The odds of blackjack with an endless deck, exact: what the dealer ends on, when to hit.

A hand is its sum with aces as 1, and whether it has an ace. Cards are 1 (an ace) to 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

CHANCES = {card: (4 if card == 10 else 1) / 13 for card in range(1, 11)}
BUST = 22
"""What every total over 21 is worth to a dealer's odds."""


def total(hard: int, ace: bool) -> int:
    """Return what a hand counts: one ace is 11 where that is not too much.

    >>> total(7, ace=True), total(12, ace=True), total(12, ace=False)
    (17, 12, 12)
    """
    return hard + 10 if ace and hard <= 11 else hard


def dealer_stops(hard: int, ace: bool, hits_soft_17: bool) -> bool:
    """Return whether the dealer draws no further card.

    >>> dealer_stops(7, True, hits_soft_17=False), dealer_stops(7, True, hits_soft_17=True)
    (True, False)
    """
    count = total(hard, ace)
    return count > 17 or (count == 17 and not (hits_soft_17 and hard == 7))


@lru_cache(maxsize=256)
def dealer_ends(hard: int, ace: bool, hits_soft_17: bool) -> Mapping[int, float]:
    """Return the chance of each total (``BUST`` for too much) that a dealer's hand ends on."""
    if dealer_stops(hard, ace, hits_soft_17):
        return {min(total(hard, ace), BUST): 1.0}
    ends: dict[int, float] = {}
    for card, chance in CHANCES.items():
        for end, then in dealer_ends(hard + card, ace or card == 1, hits_soft_17).items():
            ends[end] = ends.get(end, 0.0) + chance * then
    return ends


@lru_cache(maxsize=1024)
def worth_of_standing(count: int, shown: int, hits_soft_17: bool) -> float:
    """Return the mean reward of standing: 1 for a win, one half for a draw."""
    ends = dealer_ends(shown, shown == 1, hits_soft_17)
    return sum(
        chance * (1.0 if end == BUST or end < count else 0.5 if end == count else 0.0)
        for end, chance in ends.items()
    )


@lru_cache(maxsize=4096)
def worth_of_hitting(hard: int, ace: bool, shown: int, hits_soft_17: bool) -> float:
    """Return the mean reward of taking a card and playing best from there."""
    worth = 0.0
    for card, chance in CHANCES.items():
        after, any_ace = hard + card, ace or card == 1
        if after <= 21:
            stand = worth_of_standing(total(after, any_ace), shown, hits_soft_17)
            worth += chance * max(stand, worth_of_hitting(after, any_ace, shown, hits_soft_17))
    return worth


def should_hit(hard: int, ace: bool, shown: int, hits_soft_17: bool) -> bool:
    """Return whether best play takes a card, ``shown`` being the dealer's open one.

    >>> should_hit(16, False, 10, False), should_hit(16, False, 6, False)
    (True, False)
    """
    stand = worth_of_standing(total(hard, ace), shown, hits_soft_17)
    return worth_of_hitting(hard, ace, shown, hits_soft_17) > stand
