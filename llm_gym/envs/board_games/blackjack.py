"""Come closer to 21 than the dealer, without going over."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np

from llm_gym import Outcome, StopReason, TextEnv, end, go_on, lose, reject, setting, win
from llm_gym.reading.moves import Named

CHANCES = {card: (4 if card == 10 else 1) / 13 for card in range(1, 11)}
BUST = 22
"""Stands for every total over 21 in the distribution of the dealer's totals."""


def total(hard: int, ace: bool) -> int:
    """Return the total of a hand; one ace counts 11 if that does not exceed 21.

    >>> total(7, ace=True), total(12, ace=True), total(12, ace=False)
    (17, 12, 12)
    """
    return hard + 10 if ace and hard <= 11 else hard


def dealer_stops(count: int, soft: bool, hits_soft_17: bool) -> bool:
    """Return whether the dealer stops drawing; a soft total counts an ace as 11.

    >>> dealer_stops(17, True, hits_soft_17=False), dealer_stops(17, True, hits_soft_17=True)
    (True, False)
    """
    return count > 17 or (count == 17 and not (hits_soft_17 and soft))


@lru_cache(maxsize=256)
def dealer_ends(hard: int, ace: bool, hits_soft_17: bool) -> Mapping[int, float]:
    """Return the probability of each final total of the dealer (``BUST`` if over 21)."""
    count = total(hard, ace)
    if dealer_stops(count, count > hard, hits_soft_17):
        return {min(count, BUST): 1.0}
    ends: dict[int, float] = {}
    for card, chance in CHANCES.items():
        for final, then in dealer_ends(hard + card, ace or card == 1, hits_soft_17).items():
            ends[final] = ends.get(final, 0.0) + chance * then
    return ends


@lru_cache(maxsize=1024)
def worth_of_standing(count: int, shown: int, hits_soft_17: bool) -> float:
    """Return the expected reward of standing: 1 for a win, 0.5 for a draw."""
    ends = dealer_ends(shown, shown == 1, hits_soft_17)
    return sum(
        chance * (1.0 if end == BUST or end < count else 0.5 if end == count else 0.0)
        for end, chance in ends.items()
    )


@lru_cache(maxsize=4096)
def worth_of_hitting(hard: int, ace: bool, shown: int, hits_soft_17: bool) -> float:
    """Return the expected reward of taking a card and playing optimally afterwards."""
    worth = 0.0
    for card, chance in CHANCES.items():
        after, any_ace = hard + card, ace or card == 1
        if after <= 21:
            stand = worth_of_standing(total(after, any_ace), shown, hits_soft_17)
            worth += chance * max(stand, worth_of_hitting(after, any_ace, shown, hits_soft_17))
    return worth


def should_hit(hard: int, ace: bool, shown: int, hits_soft_17: bool) -> bool:
    """Return whether optimal play takes a card; ``shown`` is the dealer's open card.

    >>> should_hit(16, False, 10, False), should_hit(16, False, 6, False)
    (True, False)
    """
    stand = worth_of_standing(total(hard, ace), shown, hits_soft_17)
    return worth_of_hitting(hard, ace, shown, hits_soft_17) > stand


RANKS = ("A", "2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K")
VALUES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10)
_MOVES = ("hit", "stand")
_WORDS = {"hit": True, "stand": False, "stick": False}
_HANDS = re.compile(r"You have ([\w, ]+): .*?\. The dealer shows (\w+)\.")
_SOFT = "also on a 17 with an ace as 11"
_DEALERS_MOST = 16  # the most cards that a dealer can draw: all of them aces


@lru_cache(maxsize=4096)  # the same moves come again and again
def parse_call(move: str) -> bool | None:
    """Return True for a hit, False for a stand, and None for anything else.

    >>> parse_call("Hit"), parse_call("[stand]"), parse_call("stick"), parse_call("double")
    (True, False, False, None)
    """
    return _WORDS.get(move.strip("[].! ").lower())


_CALLED = re.compile(
    r"(?i)\b(?:(hit(?:s|ting)?|(?:another|one more|draw a|take a) card)"
    r"|(?:stand|stick|stay)(?:s|ing)?)\b"
)


def find_calls(text: str) -> Iterator[Named]:
    """Yield the moves that a sentence names.

    >>> [move for *_, move in find_calls("Hitting is too risky, so I stand.")]
    ['hit', 'stand']
    """
    for one in _CALLED.finditer(text):
        yield one.start(), one.end(), "hit" if one[1] else "stand"


@lru_cache(maxsize=1 << 14)  # the same hands come again and again
def read_hand(ranks: bytes) -> tuple[int, bool, str]:
    """Return the total of a hand, whether it counts an ace as 11, and the hand as text.

    >>> read_hand(bytes([0, 12]))  # an ace and a king
    (21, True, 'A, K: 21')
    """
    hard = sum([VALUES[rank] for rank in ranks])
    best = total(hard, ace=0 in ranks)
    return best, best > hard, f"{', '.join([RANKS[rank] for rank in ranks])}: {best}"


class BlackjackEnv(TextEnv):
    """Come closer to 21 than the dealer, without going over.

    Description:
        One hand of blackjack with the rules of Gymnasium's Blackjack. Player and dealer get two
        cards each; one of the dealer's is face down. The player hits or stands; then the dealer
        turns the hidden card and draws up to 17. There is no doubling and no splitting, and a
        natural is a plain 21. The seed fixes the order of the cards, so one seed is one hand.

    Actions:
        ``hit`` (take a card) or ``stand``, also ``stick``.

    Observations:
        The player's cards and their total, the dealer's open card and the turns left.

    Rewards:
        1 for a win, 0.5 for a draw, 0 for a loss: half of Gymnasium's reward, plus a half. Only
        a win is a success.

    Episode end:
        Terminates when the player goes over 21 (lost), when the player stands (won, drawn or
        lost), and after ``max_turns`` turns (lost).

    Args:
        decks: Decks of 52 cards shuffled together for the hand, 1 to 8; None draws every card
            from a full deck.
        hits_soft_17: Whether the dealer also draws at a 17 that counts an ace as 11.
        max_turns: Turns allowed, 4 to 20.
        **common: See ``TextEnv``.
    """

    find_moves = staticmethod(find_calls)

    is_markov = True
    has_splits = False
    no_difficulty = "the rules of blackjack and the cards decide how hard it is"

    decks: int | None = setting(None, 1, 8)
    hits_soft_17: bool = setting(False)
    max_turns: int = setting(12, 4, 20)

    def new_game(self, rng: np.random.Generator) -> None:
        cards = 4 + self.max_turns + _DEALERS_MOST
        if self.decks is None:
            self._cards = (rng.random(cards) * 13).astype(np.uint8).tobytes()
        else:
            shoe = rng.permutation(52 * self.decks)[:cards]
            self._cards = (shoe % 13).astype(np.uint8).tobytes()
        self._hits = 0

    def _hand(self, hits: int) -> bytes:
        # The player's first two cards, the dealer's two, then the cards as they are drawn.
        return self._cards[:2] + self._cards[4 : 4 + hits]

    def rules_text(self) -> str:
        deck = (
            "Every card is drawn from a full deck"
            if self.decks is None
            else f"The cards are {self.decks} deck{'s' * (self.decks > 1)} of 52, shuffled"
        )
        return (
            "Play a hand of blackjack: come closer to 21 than the dealer, without going over. J, "
            "Q and K count 10; an ace counts 11, or 1 where 11 would be too much. Your move is hit "
            "or stand. Hit to take a card; over 21 you lose. Stand to take no more: the dealer "
            "turns the hidden card, "
            f"draws until 17 or more{f', {_SOFT}' if self.hits_soft_17 else ''}, and loses over "
            f"21. {deck}. A win counts 1, a draw one half."
        )

    def example_moves(self) -> Sequence[str]:
        return _MOVES

    def describe(self) -> str:
        _, soft, hand = read_hand(self._hand(self._hits))
        ace, shown = " with an ace as 11" if soft else "", RANKS[self._cards[2]]
        return f"You have {hand}{ace}. The dealer shows {shown}. Turns left: {self.turns_left}."

    def apply(self, move: str) -> Outcome:
        hit = parse_call(move)
        if hit is None:
            return reject("Your move must be hit or stand.")
        if not hit:
            return self._showdown()
        text = f"You draw {RANKS[self._cards[4 + self._hits]]}."
        self._hits += 1
        mine = read_hand(self._hand(self._hits))[0]
        if mine > 21:
            return lose(f"{text} That makes {mine}, which is over 21: you lose.")
        return go_on(text)

    def _showdown(self) -> Outcome:
        mine = read_hand(self._hand(self._hits))[0]
        theirs, dealer = self._dealer(self._hits)
        text = f"The dealer has {dealer}."
        if theirs > 21 or mine > theirs:
            return win(f"{text} You have {mine} and win.")
        if mine < theirs:
            return lose(f"{text} You have {mine} and lose.")
        return end(f"{text} You have {mine} too: a draw.", StopReason.DRAWN, 0.5)

    def _dealer(self, hits: int) -> tuple[int, str]:
        """Return the dealer's final total and hand if the player takes ``hits`` cards."""
        ranks, at = self._cards[2:4], 4 + hits
        theirs, soft, hand = read_hand(ranks)
        while not dealer_stops(theirs, soft, self.hits_soft_17):
            ranks += self._cards[at : at + 1]
            theirs, soft, hand = read_hand(ranks)
            at += 1
        return theirs, hand

    def reflex_move(self, rng: np.random.Generator) -> str:
        """Hit below 17, as the dealer does."""
        return "hit" if read_hand(self._hand(self._hits))[0] < 17 else "stand"

    def instance(self) -> object:
        return list(self._cards)

    def swap_secret(self, rng: np.random.Generator) -> bool:
        hidden = [3, *range(4 + self._hits, len(self._cards))]
        order = rng.permutation(hidden).tolist()
        swapped = bytearray(self._cards)
        for place, other in zip(hidden, order, strict=True):
            swapped[place] = self._cards[other]
        changed = swapped != self._cards
        self._cards = bytes(swapped)
        return changed

    legal_moves = example_moves

    def _best_end(self) -> tuple[float, int]:
        """Return the best reward that the remaining cards allow, and the hits it takes."""
        best = (-1.0, 0)
        for more in range(self.turns_left):
            hits = self._hits + more
            mine, theirs = read_hand(self._hand(hits))[0], self._dealer(hits)[0]
            if mine > 21:
                break
            reward = 1.0 if theirs > 21 or mine > theirs else 0.5 if mine == theirs else 0.0
            best = max(best, (reward, -more))
        return best[0], -best[1]

    def oracle_move(self) -> str:
        return "hit" if self._best_end()[1] else "stand"

    def oracle_value(self) -> float:
        return float(self._best_end()[0] == 1.0)

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Play the optimal strategy for an infinite deck; one hand leaves no cards to count."""
        mine, theirs = _HANDS.findall(observations[-1])[0]
        best, soft, _ = read_hand(bytes(map(RANKS.index, mine.split(", "))))
        hard, shown = best - 10 * soft, VALUES[RANKS.index(theirs)]
        return "hit" if should_hit(hard, soft, shown, _SOFT in observations[0]) else "stand"
