"""What moves pay, how they end a game and the last observation: a row for each rule."""

import pytest

from tests.envs.board_games import test_blackjack as blackjack
from tests.envs.board_games import test_connect_four as connect_four
from tests.envs.board_games import test_tic_tac_toe as tic_tac_toe
from tests.envs.deduction import test_minesweeper as minesweeper
from tests.envs.navigation import test_cooking_world as cooking_world
from tests.envs.navigation import test_frozen_lake as frozen_lake
from tests.envs.navigation import test_text_game as text_game
from tests.envs.playing import start_game
from tests.envs.puzzles import test_fifteen_puzzle as fifteen_puzzle
from tests.envs.puzzles import test_sokoban as sokoban
from tests.envs.puzzles import test_sudoku as sudoku
from tests.envs.puzzles import test_tower_of_hanoi as tower_of_hanoi
from tests.envs.questions import test_countdown as countdown

CHAINS = {"1 + 1": 2, "0 - 7": -7, "12 + 5 - 30": -13, "9 - 9": 0, "8 - 3 - 4": 1}
LETTERS = {"e": 5, "t": 1, "s": 2, "z": 0}


def chain(text="12 + 5 - 30"):
    return lambda: start_game("ChainSum", _chain=text)


def letters(letter="e", **settings):
    return lambda: start_game("LetterCounting", _letter=letter, _text="cheese tree sky", **settings)


def on(module, *position, **settings):
    """Return a function that starts the game of a test module from a position."""
    return lambda: module.started(*position, **settings)


def play(world, *moves, **settings):
    return lambda: world.play(*moves, **settings)[0]


def at(name, **given):
    return lambda: start_game(name, **given)


BANDIT = at("Bandit", max_turns=6, _best=1)
CARROLL = ["heal", "teal", "tell", "tall", "tail"]
ECHO = at("Echo", words=2, max_turns=3, _asked=[0, 1, 0])
HANGMAN = at("Hangman", _secret="level")
JAMMED = "You cannot push the box right: there is no room behind it."
MEMORY = at("Memory", _word="red")

# The game, the moves, what they pay in all, the stop reason, and a part of the last observation.
# fmt: off
OUTCOMES = [
    (BANDIT, ["red"] * 6, 0, "lost",
     "No, red is not the best button. The best button was blue."),
    (BANDIT, ["red"] * 5 + ["the best one"], 0, "lost", "The best button was blue."),
    (BANDIT, ["red"] * 5 + ["blue"], 1, "won", "Yes, blue is the best button."),

    (on(blackjack, "K 9", "9 9"), ["stand"], 1, "won", ""),
    (on(blackjack, "K 8", "9 9"), ["stand"], 0.5, "drawn", ""),
    (on(blackjack, "K 7", "9 9"), ["stand"], 0, "lost", ""),
    (on(blackjack, "2 2", "K 6", "K"), ["stand"], 1, "won", ""),  # the dealer goes over
    (on(blackjack, "A K", "7 7 ", "7"), ["stand"], 0.5, "drawn", ""),  # a natural is a plain 21
    # The dealer stands on a 17 with an ace as 11, draws to 16 with one, and may draw on 17.
    (on(blackjack, "K 7", "A 6"), ["stand"], 0.5, "drawn", ""),
    (on(blackjack, "K 8", "A 5", "K 3"), ["stand"], 0, "lost", ""),
    (on(blackjack, "K 7", "A 6", "A", hits_soft_17=True), ["stand"], 0, "lost", ""),
    (on(blackjack, "K 7", "K 7", "A", hits_soft_17=True), ["stand"], 0.5, "drawn", ""),
    (on(blackjack, "K 5", "9 9", "A"), ["hit"], 0, "playing",
     "You draw A.\nYou have K, 5, A: 16. The dealer shows 9. Turns left: 11."),
    (on(blackjack, "K 5", "9 9", "A 10"), ["hit", "hit"], 0, "lost",
     "You draw 10. That makes 26, which is over 21: you lose."),
    (on(blackjack, "A 6", "9 9", "9 A"), ["hit"], 0, "playing", "You have A, 6, 9: 16. "),
    (on(blackjack, "A 6", "9 9", "9 A"), ["hit", "hit"], 0, "playing", "A, 6, 9, A: 17. "),

    *((chain(question), [str(value)], 1, "won", f"Yes, it is {value}.")
      for question, value in CHAINS.items()),
    *((chain(), [wrong], 0, "lost", "No. The answer is -13.")
      for wrong in ("13", "-12", "0", "-13.5", "-130")),
    *((chain(), [reply], 1, "won", "")
      for reply in ("\u221213", "-13.", "12 + 5 - 30 = -13", "The answer is -13.")),
    (chain("999 + 1"), ["1,000"], 1, "won", ""),
    *((chain(), [reply], 0, "lost", "The answer is -13.")
      for reply in ("minus thirteen", "-13 or 13", "?", "12 + 5 - 30")),
    *((letters(letter), [str(value)], 1, "won", f"Yes, it is {value}.")
      for letter, value in LETTERS.items()),
    *((letters(), [wrong], 0, "lost", "No. The answer is 5.")
      for wrong in ("4", "6", "0", "-5", "50", "5.5")),
    *((letters(), [reply], 1, "won", "")
      for reply in ("It occurs 5 times.", "5.", "The answer is 5", "2 + 3 = 5")),
    *((letters(), [reply], 0, "lost", "The answer is 5.")
      for reply in ("several", "5 or 6", "e", "4, 5", "?")),
    (letters(retries=1), ["several", "5"], 1, "won", ""),  # a slip of form, but no wrong number
    (letters(retries=1), ["4"], 0, "lost", ""),

    *((on(connect_four, picture), [move], 1, "won", "four in a line") for picture, move in (
        ("X XO XO", "1"), ("OOO XXX", "4"), ("OO.O XX.X", "3"), ("..XO .XOX XOOX", "4"),
        ("...OX.. ...XOX. ...XOOX", "4"))),
    (on(connect_four, "......O X.....O XX....O"), ["4"], 0, "lost",
     "You play 4. I play 7 and have four in a line: you lose.\n"),

    *((play(cooking_world, *moves), [move], 0, "lost",
       f"{name} is not what the recipe says: you lose.")
      for move, name in (("dice carrot", "Diced carrot"), ("roast carrot", "Roasted carrot"),
                         ("fry onion", "Fried onion"), ("chop onion", "Chopped onion"))
      for moves in (cooking_world.WALKTHROUGH[:6], cooking_world.READY[:5])),

    (at("Count", _last=5), ["1"], 1 / 3, "playing", "Yes."),
    (at("Count", numbers=9, _last=3), ["5"], 0, "lost", "No, 4 comes next."),
    (at("Count", numbers=9, max_turns=2, _last=3), ["what?", "4"], 0.5, "lost", "No turns left"),

    (on(countdown, [3, 8, 5, 2], 40), ["3 + 8 + 5 + 2"], 0, "playing", "That makes 18, not 40.\n"),
    (on(countdown, [3, 8, 5, 2], 40), ["3 + 8 + 5 + 2", "8 * 5 * (3 - 2)"], 1, "won",
     "Yes, that makes 40."),
    (on(countdown, [3, 8, 5, 2], 40, max_turns=1), ["3 + 8 + 5 + 2"], 0, "lost",
     "No turns left: you lost. One way is "),
    (on(countdown, [3, 3, 8, 8], 24), ["8 + 8 + 3 + 3", "8 / (3 - 8 / 3)"], 1, "won", ""),
    (on(countdown, [3, 8, 5, 2], 40, use_all=False), ["8 * 5"], 1, "won", ""),
    (on(countdown, [2, 3, 4], 6, stepwise=True, use_all=False), ["2 * 3"], 1, "won", ""),
    (on(countdown, [2, 3, 4], 6, stepwise=True), ["2 * 3"], 0, "playing", ""),
    (on(countdown, [2, 3], 6, stepwise=True), ["3 * 2"], 1, "won", ""),
    (on(countdown, [100, 75, 6, 4], 425, stepwise=True, use_all=False), ["100 * 4"], 0, "playing",
     "100 * 4 makes 400.\nNumbers: 75, 6, 400. Target: 425. Turns left: 7."),
    (on(countdown, [100, 75, 6, 4], 425, stepwise=True, use_all=False),
     ["100 * 4", "100 + 6", "400 + 75", "475 + 6"], 0, "lost",
     "475 + 6 makes 481. That is not 425. One way is "),

    (ECHO, ["red", "blue", "red"], 1, "won", "Yes."),
    (ECHO, ["blue"], 0, "playing", "No.\nSay blue."),
    (ECHO, ["blue", "blue", "red"], 2 / 3, "lost", "Yes."),
    (ECHO, ["elephant"], 0, "playing", "I do not know that word.\nSay red."),
    (ECHO, ["elephant", "red", "blue"], 2 / 3, "lost", ""),

    *((on(fifteen_puzzle, [1, 2, 3, 4, 0, 5, 6, 7, 8]), [move], 0, "playing",
       "\n".join([f"You move {move}.", *rows, "Turns left: 39."]))
      for move, *rows in (("up", "1 2 3", "4 7 5", "6 _ 8"), ("down", "1 _ 3", "4 2 5", "6 7 8"),
                          ("left", "1 2 3", "4 5 _", "6 7 8"),
                          ("right", "1 2 3", "_ 4 5", "6 7 8"))),
    # The tiles are in order, but the gap is elsewhere.
    (on(fifteen_puzzle, [1, 2, 3, 4, 0, 5, 6, 7, 8]), ["right", "down"], 0, "playing", ""),

    (on(frozen_lake, ".H .G"), ["right"], 0, "lost", "You move right and fall into a hole."),
    (on(frozen_lake, ".. .G", max_turns=5), ["up"], 0, "playing",
     "You move up, but the edge stops you.\nP .\n. G\nTurns left: 4."),

    (at("GuessTheNumber", _target=7), ["7"], 1, "won", "Yes, the number is 7."),
    (at("GuessTheNumber", low=-5, _target=0), ["0"], 1, "won", "Yes, the number is 0."),
    (at("GuessTheNumber", low=-5, _target=-3), ["-3"], 1, "won", "Yes, the number is -3."),
    (at("GuessTheNumber", max_turns=2, _target=7), ["8", "8"], 0, "lost", "The number was 7."),

    (HANGMAN, ["e", "l", "v"], 1, "won", "Yes, the word is level."),
    (HANGMAN, ["level"], 1, "won", "Yes, the word is level."),
    (at("Hangman", max_turns=2, _secret="level"), ["e", "l"], 0, "lost", "The word was level."),
    (at("Hangman", lives=2, _secret="level"), ["lever"], 0, "playing",
     "The word is not lever.\nWord: _ _ _ _ _\nWrong: lever.\nLives: 1. Turns left: 19."),
    (at("Hangman", lives=2, _secret="level"), ["lever", "lever"], 0, "lost", ""),
    (at("Hangman", lives=1, _secret="level"), ["x"], 0, "lost",
     "There is no x. No lives left: you lost. The word was level."),
    # A letter that was tried costs a turn, and no life.
    (HANGMAN, ["e", "e"], 0, "playing",
     "You tried e before.\nWord: _ e _ e _\nLives: 6. Turns left: 18."),
    (HANGMAN, ["x", "x"], 0, "playing", "Wrong: x.\nLives: 5. Turns left: 18."),

    (at("Mastermind", _code=(3, 1, 4, 2)), ["3 1 4 2"], 1, "won", "Yes, 3 1 4 2 is the code."),
    (at("Mastermind", max_turns=2, _code=(3, 1, 4, 2)), ["3 1 4 1", "3 1 4 3"], 0, "lost",
     "The code was 3 1 4 2."),
    (at("Mastermind", history=False, _code=(3, 1, 4, 2)), ["1 2 3 4", "3 1 1 1"], 0, "playing",
     "3 1 1 1: 2 black, 0 white.\nTurns left: 18."),

    (MEMORY, ["ok"], 0, "playing", "Ignore "),
    (MEMORY, ["an elephant, perhaps?", "ok"], 0, "playing", "Which word was it?"),
    (MEMORY, ["", "ok", "red"], 1, "won", "Yes."),  # no reply at all puts nothing off either
    (MEMORY, ["ok", "ok", "blue"], 0, "lost", "No, it was red."),
    (MEMORY, ["ok", "ok", "elephant"], 0, "lost", "I do not know that word."),

    (on(minesweeper, minesweeper.CORNER), ["reveal 2 3"], 0, "lost",
     "You reveal a mine at 2 3. The mines were at 2 3, 3 2."),
    (on(minesweeper, minesweeper.CORNER), ["flag 2 3", "flag 3 2"], 0, "playing", ""),

    *((on(sokoban, "######", row, "#OO..#", *["######"] * 3), [move], 0, "playing",
       f"{text}\n# # # # # #\n{' '.join(after)}\n") for row, move, text, after in (
        ("#PX###", "right", JAMMED, "#PX###"), ("#PXX.#", "right", JAMMED, "#PXX.#"),
        ("#PX*.#", "right", JAMMED, "#PX*.#"),
        ("#.P.X#", "up", "You cannot move up: there is a wall.", "#.P.X#"),
        ("#.XP.#", "right", "You move right.", "#.X.P#"))),  # nothing is pulled

    (on(sudoku, max_turns=9), ["1 3 3", "1 3 0"] * 4 + ["1 3 3"], 0, "lost",
     "The rows of the solution are 1234, 3412, 2143, 4321."),

    *((on(tic_tac_toe, line[:2], [free for free in "123456789" if free not in line][:2]),
       [line[2]], 1, "won", "three in a row") for line in tic_tac_toe.LINES),
    (on(tic_tac_toe, "57", "12"), ["9"], 0, "lost",
     "You play 9. I play 3 and have three in a row: you lose.\nO O O\n4 X 6\nX 8 X"),
    (on(tic_tac_toe, "1267", "3459"), ["8"], 0, "drawn", "You play 8. The board is full: a draw."),

    *((play(text_game, *moves, target=target), [last], won, "won" if won else "playing", "")
      for target, last, won in (("chest", "put crown in chest", 1), ("chest", "drop crown", 0),
                                ("kitchen", "drop crown", 1))
      for moves in [text_game.WALKTHROUGH[:-1]]),

    (on(tower_of_hanoi, "A: 1", "B: 3 2", "C:"), ["A B"], 0, "playing", "B: 3 2 1\n"),

    # One of Lewis Carroll's ladders.
    (at("WordLadder", _start="head", _word="head", _target="tail"), CARROLL, 1, "won",
     "Yes, you have reached tail."),
    *((at("WordLadder", word_length=5, _word=word, _target="heart"), [step], 0, "playing", step)
      for word, step in (("loved", "moved"), ("lived", "loved"), ("cased", "based"),
                         ("tuned", "tunes"))),  # forms of a word are words, too

    (at("Wordle", _secret="crane"), ["crane"], 1, "won", "Yes, the word is crane."),
    (at("Wordle", max_turns=2, _secret="crane"), ["crank", "crate"], 0, "lost",
     "The word was crane."),
    (at("Wordle", _secret="crane"), ["qzxjv"], 0, "playing", "Q Z X J V: X X X X X"),
]
# fmt: on


@pytest.mark.parametrize(("start", "moves", "paid", "stop", "text"), OUTCOMES)
def test_moves_have_their_rewards_and_endings(start, moves, paid, stop, text):
    env = start()
    steps = [env.step(move) for move in moves]
    obs, _, terminated, truncated, info = steps[-1]
    assert not any(step[2] for step in steps[:-1])
    assert sum(step[1] for step in steps) == pytest.approx(paid)
    assert (terminated, truncated, info["stop_reason"]) == (stop != "playing", False, stop)
    assert info["success"] == (stop == "won")
    assert text in obs
