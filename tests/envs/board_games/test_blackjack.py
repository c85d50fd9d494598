"""Blackjack: the rules of Gymnasium's, card by card, and play that is best by exact odds."""

import gymnasium.envs.toy_text.blackjack as theirs
import numpy as np
import pytest

from llm_gym.envs.board_games.blackjack import (
    BUST,
    CHANCES,
    RANKS,
    VALUES,
    dealer_ends,
    read_hand,
    should_hit,
    total,
    worth_of_hitting,
    worth_of_standing,
)
from tests.envs.playing import episodes, final_info, finish, start_game


def started(player, dealer, next_cards="", **kwargs):
    """Return an environment with these cards, such as ``started("K 7", "9 8", "A A")``."""
    env = start_game("Blackjack", **kwargs)
    names = f"{player} {dealer} {next_cards}".split()
    env._cards = bytes(map(RANKS.index, names)) + env._cards[len(names) :]
    return env


def test_an_ace_counts_11_where_that_is_not_over_21():
    assert "You have A, 6: 17 with an ace as 11." in started("A 6", "9 9").describe()
    assert "21 with an ace as 11" in started("A K", "9 9").describe()


def test_one_deck_has_four_of_each_and_an_endless_one_more():
    def most(decks):
        hands = episodes("Blackjack", 300, decks=decks)
        return max(env._cards.count(rank) for env in hands for rank in range(13))

    assert most(1) == 4
    assert 4 < most(2) <= 8
    assert most(None) > 4


def test_every_rank_is_drawn_equally_often():
    cards = []
    for env in episodes("Blackjack", 400):
        cards += env._cards
    shares = np.bincount(cards, minlength=13) / len(cards)
    assert shares == pytest.approx(np.full(13, 1 / 13), abs=0.01)


def test_hands_end_as_they_do_in_gymnasium(monkeypatch):
    other, ends = theirs.BlackjackEnv(), set()
    for env in episodes("Blackjack", 300):
        cards = iter([VALUES[rank] for rank in env._cards[4:]])
        monkeypatch.setattr(theirs, "draw_card", lambda rng, cards=cards: next(cards))
        other.player = [VALUES[rank] for rank in env._cards[:2]]
        other.dealer = [VALUES[rank] for rank in env._cards[2:4]]
        done = False
        while not done:
            action = env.random_action()
            _, reward, done, _, info = env.step(action)
            (mine, *_), expected, their_done, *_ = other.step(int(action == "hit"))
            assert done == their_done
            assert read_hand(env._hand(env._hits))[0] == mine
            if done:
                assert 2 * reward - 1 == expected
                ends.add(info["stop_reason"])
    assert ends == {"won", "drawn", "lost"}


def test_the_dealers_odds_are_the_known_ones_and_depend_on_the_soft_17_rule():
    # For an endless deck; 28.16 % is the well-known chance of the dealer to go over.
    bust = sum(CHANCES[card] * dealer_ends(card, card == 1, False)[BUST] for card in CHANCES)
    assert bust == pytest.approx(0.2816, abs=1e-4)
    for card in CHANCES:
        assert sum(dealer_ends(card, card == 1, True).values()) == pytest.approx(1.0)
    assert dealer_ends(1, True, True)[17] < dealer_ends(1, True, False)[17]
    assert worth_of_standing(17, 1, True) < worth_of_standing(17, 1, False)


def test_the_strategy_is_the_one_in_the_textbook():
    # Sutton and Barto, Figure 5.2, one row for each dealer's card from 2 to 10.
    for shown in range(2, 11):
        stick_from = 12 if shown in (4, 5, 6) else 13 if shown in (2, 3) else 17
        for hard in range(4, 22):
            assert should_hit(hard, False, shown, False) == (hard < stick_from)
        soft_from = 18 if shown <= 8 else 19
        for hard in range(2, 12):
            assert should_hit(hard, True, shown, False) == (hard + 10 < soft_from)


def test_best_play_has_its_known_value_under_gymnasiums_rules():
    worth = sum(
        CHANCES[a] * CHANCES[b] * CHANCES[shown]
        * max(
            worth_of_standing(total(a + b, 1 in (a, b)), shown, False),
            worth_of_hitting(a + b, 1 in (a, b), shown, False),
        )
        for a in CHANCES for b in CHANCES for shown in CHANCES
    )  # fmt: skip
    assert 2 * worth - 1 == pytest.approx(-0.0466, abs=1e-4)


def test_the_solver_earns_what_best_play_is_worth():
    rewards = [finish(env, "solver")[0] for env in episodes("Blackjack", 1500)]
    assert np.mean(rewards) == pytest.approx(0.4767, abs=4 * 0.48 / 1500**0.5)


def test_the_oracle_prefers_a_draw_and_there_are_always_enough_cards():
    env = started("K 6", "9 9", "2 K")
    assert final_info(env, "oracle")["stop_reason"] == "drawn"
    env = started("A A", "A A", max_turns=20)
    env._cards = bytes(len(env._cards))
    for _ in range(19):
        assert not env.step("hit")[2]
    assert env.step("stand")[4]["stop_reason"] == "won", "21 aces beat a dealer's 17"
