"""Make a target number from given ones with plain arithmetic."""

import re
from collections.abc import Iterator, Sequence
from itertools import product
from operator import mul

import numpy as np

from llm_gym import ConfigError, Outcome, TextEnv, go_on, lose, reject, setting, win
from llm_gym.envs.questions.countdown_arithmetic import (
    Tree,
    combine,
    evaluate,
    find_expressions,
    first_step,
    parse_expression,
    search,
    write,
)
from llm_gym.reading.moves import Find, Named, find_with

LARGE = (25, 50, 75, 100)
_DRAWS = 2000
_STATE = re.compile(r"Numbers: ([\d, ]+)\. Target: (\d+)\.")
_STEPS = "Each move combines two of the numbers"
_ALL = "Use every number exactly once"


def draw_tree(numbers: Sequence[int], most: int, draws: list[float]) -> tuple[int, Tree]:
    """Combine all ``numbers`` at random; all values on the way are whole, from 1 to ``most``.

    Returns the value and the expression. Uses three ``draws`` from [0, 1) for each operation.
    """
    table: list[tuple[int, Tree]] = [(number, number) for number in numbers]
    while len(table) > 1:
        a, left = table.pop(int(draws.pop() * len(table)))
        b, right = table.pop(int(draws.pop() * len(table)))
        options = combine(a, b)
        if a * b > most or a + b > most:
            options = [option for option in options if option[0] <= most] or options[:1]
        value, sign, swap = options[int(draws.pop() * len(options))]
        table.append((value, (sign, right, left) if swap else (sign, left, right)))
    return table[0]


def find_answers(text: str, numbers: int) -> Iterator[Named]:
    """Yield the expressions in ``text``; one before ``=`` must use ``numbers`` numbers, unless 0.

    >>> [move for *_, move in find_answers("With 86 - 54 = 32: 86 - 54 - 2", 3)]
    ['86 - 54 - 2']
    """
    for start, end, move in find_expressions(text):
        is_step = numbers and text[end:].lstrip().startswith("=")
        if not is_step or len(re.findall("[0-9]+", move)) == numbers:
            yield start, end, move


class CountdownEnv(TextEnv):
    """Make a target number from given ones with plain arithmetic.

    Description:
        The numbers are random, and the target is the value of a random expression of them, so it
        can always be reached. A move is a whole expression, and there are several attempts. With
        ``stepwise``, a move is one operation on two numbers, and its result replaces them.

    Actions:
        An expression of the numbers with ``+``, ``-``, ``*``, ``/`` and brackets, such as
        ``(75 - 4) * 3``. An equals sign and the text after it are ignored. Arithmetic is exact,
        and intermediate values may be fractions. An expression with other numbers, with a number
        used twice, or (with ``use_all``) with a number left out is unusable. With ``stepwise``,
        only one operation on two numbers whose result is a positive whole number is usable.

    Observations:
        The value of the last expression, the numbers, the target and the turns left.

    Rewards:
        1 for making the target exactly, otherwise 0.

    Episode end:
        Terminates when the target is made (won) and after ``max_turns`` moves (lost). With
        ``stepwise``, also when one number is left and it is not the target (lost).

    Args:
        numbers: How many numbers are given, 2 to 6.
        max_number: Largest number; the numbers are drawn from 1 to ``max_number``.
        large: How many of the numbers are drawn from 25, 50, 75 and 100 instead, without
            repetition; 0 to 4.
        min_target: Smallest target.
        max_target: Largest target.
        use_all: Whether every number must be used; otherwise some may be left over.
        stepwise: Whether a move is one operation instead of a whole expression.
        max_turns: Moves allowed; with ``stepwise``, at least ``numbers`` - 1.
        **common: See ``TextEnv``.
    """

    is_markov = True
    max_move_chars = 200

    numbers: int = setting(4, 2, 6, levels=(3, 6))
    max_number: int = setting(99, 1, 1000, levels=(10, 100))
    large: int = setting(0)
    min_target: int = setting(10, levels=(10, 100))
    max_target: int = setting(99, levels=(30, 1000))
    use_all: bool = setting(True)
    stepwise: bool = setting(False)
    max_turns: int = setting(3)

    def check_settings(self) -> None:
        self.check_range("large", 0, min(self.numbers, len(LARGE)))
        self.check_range("min_target", 1, self.max_target)
        self.check_range("max_turns", self.numbers - 1 if self.stepwise else 1)

    def new_game(self, rng: np.random.Generator) -> None:
        for _ in range(_DRAWS):
            draws = rng.random(4 * self.numbers + 3).tolist()
            kinds = list(LARGE)
            given = [kinds.pop(int(draws.pop() * len(kinds))) for _ in range(self.large)]
            while len(given) < self.numbers:
                given.append(1 + int(draws.pop() * self.max_number))
            target, tree = draw_tree(given, 10 * self.max_target, draws)
            # If a given number equals the target, there is nothing to solve.
            if self.min_target <= target <= self.max_target and target not in given:
                break
        else:
            raise ConfigError(
                f"no target from {self.min_target} to {self.max_target} was made of "
                f"{self.numbers} numbers up to {self.max_number} in {_DRAWS} draws; widen them"
            )
        self._given, self._target, self._way = tuple(given), target, tree
        self._table = given

    def rules_text(self) -> str:
        how = _ALL if self.use_all else "Use each number at most once"
        if not self.stepwise:
            return (
                "Make the target from the numbers, with +, -, *, / and brackets. "
                f"{how}. Fractions are allowed on the way; the result must be exact."
            )
        end = f" {_ALL}: the target must be the last number left." if self.use_all else ""
        return (
            f"Make the target from the numbers. {_STEPS} with +, -, * or / to a positive whole "
            f"number, which takes their place.{end} You lose when one number is left that is not "
            "the target."
        )

    def example_moves(self) -> Sequence[str]:
        # The examples use unlikely numbers, so that no example is a good move.
        return ["12 + 34", "56 / 7"] if self.stepwise else ["(12 + 34) * 56 - 7", "12 * 3 / 4"]

    def describe(self) -> str:
        listed = str(self._table)[1:-1]  # without brackets
        return f"Numbers: {listed}. Target: {self._target}. Turns left: {self.turns_left}."

    def apply(self, move: str) -> Outcome:
        postfix = parse_expression(move)
        if postfix is None:
            return reject("Your move must be an expression of numbers, +, -, *, / and brackets.")
        left = self._table.copy()
        for token in postfix:
            if isinstance(token, int):
                if token not in left:
                    known = token in self._table
                    why = f"You use {token} too often." if known else f"You have no {token}."
                    return reject(why)
                left.remove(token)
        value = evaluate(postfix)
        if value is None:
            return reject("Your expression divides by zero.")
        if self.stepwise:
            return self._step_to(value, postfix, left)
        if self.use_all and left:
            return reject(f"Use every number: {left[0]} is missing.")
        if value == self._target:
            return win(f"Yes, that makes {value}.")
        return go_on(f"That makes {value}, not {self._target}.")

    def _step_to(self, value: object, postfix: Sequence[int | str], left: list[int]) -> Outcome:
        if len(postfix) != 3:
            return reject("Your move must be one operation on two numbers.")
        if not isinstance(value, int) or value < 1:
            return reject(f"That makes {value}; it must be a positive whole number.")
        self._table = [*left, value]
        text = f"{postfix[0]} {postfix[2]} {postfix[1]} makes {value}."
        if value == self._target and not (left and self.use_all):
            return win(text)
        if not left:
            return lose(f"{text} That is not {self._target}. {self.reveal()}")
        return go_on(text)

    def reveal(self) -> str:
        return f"One way is {write(self._way)} = {self._target}."

    def instance(self) -> object:
        return (sorted(self._given), self._target)

    def finder(self) -> Find:
        needed = self.numbers if self.use_all and not self.stepwise else 0
        return find_with(find_answers, numbers=needed)

    def legal_moves(self) -> Sequence[str] | None:
        if not self.stepwise:
            return None
        table = sorted(self._table, reverse=True)
        pairs = {(a, b) for at, a in enumerate(table) for b in table[at + 1 :]}
        return [
            f"{b} {sign} {a}" if swap else f"{a} {sign} {b}"
            for a, b in sorted(pairs)
            for _, sign, swap in combine(a, b)
        ]

    def random_move(self, rng: np.random.Generator) -> str:
        if self.stepwise:
            return super().random_move(rng)
        draws = rng.random(3 * self.numbers).tolist()
        return write(draw_tree(self._table, 10 * self.max_target, draws)[1])

    def reflex_move(self, rng: np.random.Generator) -> str:
        """Add and subtract the numbers: try all signs until the sum is the target."""
        if self.stepwise:
            return self.random_move(rng)
        signs = product((1, -1), repeat=len(self._table))
        for chosen in signs:
            if sum(map(mul, chosen, self._table)) == self._target:
                taken = sorted(zip(chosen, self._table, strict=True), reverse=True)
                return "".join(f"{'+-'[sign < 0]}{n}" for sign, n in taken).lstrip("+")
        return "+".join(map(str, self._table))

    def move_pattern(self) -> str | None:
        return r"[0-9()+*/ -]{1,200}"

    def oracle_move(self) -> str:
        if not self.stepwise:
            return write(self._way)
        return _best_move(tuple(self._table), self._target, self.use_all, True)

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Search all expressions; write the first that makes the target, or its next step."""
        rules, (listed, target) = observations[0], _STATE.findall(observations[-1])[0]
        numbers = tuple([int(number) for number in listed.split(", ")])
        return _best_move(numbers, int(target), _ALL in rules, _STEPS in rules)


def _best_move(numbers: tuple[int, ...], target: int, use_all: bool, stepwise: bool) -> str:
    tree = search(numbers, target, use_all)
    if tree is None:  # out of reach by an earlier step
        return _as_listed(f"{numbers[0]} + {numbers[1]}")
    return _as_listed(write(first_step(tree))) if stepwise else write(tree)


def _as_listed(step: str) -> str:
    """Return a step as ``legal_moves`` lists it: the larger number first if the order is free.

    >>> _as_listed("4 * 9"), _as_listed("4 - 9")
    ('9 * 4', '4 - 9')
    """
    first, sign, second = step.split(" ")
    return f"{second} {sign} {first}" if sign in "+*" and int(first) < int(second) else step
