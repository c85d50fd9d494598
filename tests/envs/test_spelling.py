"""Moves as people write them: other words for the same move, and what is no move."""

import pytest

from llm_gym.envs.board_games.blackjack import parse_call
from llm_gym.envs.board_games.two_player import parse_number
from llm_gym.envs.deduction.bandit import parse_button
from llm_gym.envs.deduction.mastermind import parse_code
from llm_gym.envs.deduction.minesweeper import parse_dig
from llm_gym.envs.navigation import frozen_lake
from llm_gym.envs.puzzles import fifteen_puzzle, sokoban
from llm_gym.envs.puzzles.game_2048 import parse_way
from llm_gym.envs.puzzles.sudoku import parse_placement
from llm_gym.envs.puzzles.tower_of_hanoi import parse_transfer
from llm_gym.envs.shared.word_list import parse_word

UP = ["up", "UP", "[up]", "move up", "north"]
NO_WAY = ["", "u", "0", "up up", "up down", "up, left", "[up", "up]]", "ｕｐ", "not up", "up or so"]

# fmt: off
SPELLINGS = [
    (fifteen_puzzle.parse_slide, 0, [*UP, "Slide Up"]),
    (parse_way, 0, [*UP, "Slide Up"]),
    (sokoban.parse_direction, 0, ["up", "move north"]),
    (sokoban.parse_direction, 3, ["push LEFT", "west"]),
    (frozen_lake.parse_direction, 0, ["up", "go North"]),
    (frozen_lake.parse_direction, 1, ["right", "EAST"]),
    (parse_button, 0, ["red", "RED", "press red"]), (parse_button, 8, ["Gray", "[grey]"]),
    (parse_number, 9, ["9", "[9]", "play 9", "I take square 9.", "PLACE ON CELL 9"]),
    (parse_code, (3, 1, 4, 2), ["3142", "[3 1 4 2]", "3,1,4,2", "3, 1, 4, 2", "[3, 1, 4, 2]",
                                "guess 3142", "Guess 3 1 4 2"]),
    (parse_code, (1, 2), ["12"]), (parse_code, (12, 1), ["12 1"]),
    (parse_dig, (False, 0, 3), ["reveal 0 3", "0 3", "[reveal 0 3]", "[0 3]", "(0, 3)", "OPEN 0,3",
                                "reveal (0, 3)"]),
    (parse_placement, (1, 3, 5), ["1 3 5", "[1 3 5]", "1,3,5", "(1, 3, 5)", "place 1 3 5",
                                  "Put 1 3 5"]),
    (parse_transfer, (0, 2), ["A C", "a c", "AC", "A,C", "[A C]", "[a, c]", "A -> C", "move A to C",
                              "from A to C"]),
    (parse_word, "crane", ["CRANE", "[crane]", "guess crane", "crane."]),
    (parse_word, "e", ["[E]"]),
    (fifteen_puzzle.parse_slide, None, [*NO_WAY, "7"]),
    (parse_way, None, [*NO_WAY, "2"]),
    (sokoban.parse_direction, None, [*NO_WAY, "push", "pull up", "push up and up"]),
    (frozen_lake.parse_direction, None, [*NO_WAY, "go", "1"]),
    (parse_button, None, ["0", "r", "press", "press it", "ｒｅｄ"]),
    (parse_call, None, ["", "h", "do not hit", "hit stand", "double", "split", "1", "ｈｉｔ"]),
    (parse_dig, None, ["", "reveal", "reveal 1", "reveal 1 2 3", "reveal -1 2", "1.5 2", "r 1 2",
                       "٣ ٣", "1 " * 400, "9" * 900, "reveal 100 1", "reveal 1\n2"]),
    (parse_placement, None, ["", "135", "1 3", "1 3 5 7", "1 3 10", "-1 3 5", "1 3 x", "٣ 3 5",
                             "1\n3 5", "1" * 900]),
    (parse_transfer, None, ["", "A", "A B C", "A C A C", "A to", "1 3", "A  B" * 200, "Ａ Ｃ",
                            "G A", "A\nC", "A-C"]),
    (parse_word, None, ["", "two words", "naïve", "l33t", "-", "a" * 900 + "!", "[", "[]"]),
]
# fmt: on


@pytest.mark.parametrize(
    ("parse", "move", "text"),
    [(parse, move, text) for parse, move, texts in SPELLINGS for text in texts],
)
def test_moves_are_parsed_in_many_spellings(parse, move, text):
    assert parse(text) == move
