"""A data set of questions with answers as an environment."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from llm_gym import ConfigError, Outcome, StopReason, TextEnv, end, go_on, reject, win
from llm_gym.core import splits
from llm_gym.core.env import MAX_ACTION_CHARS
from llm_gym.core.infos import Info, Options
from llm_gym.datasets import questions
from llm_gym.datasets.files import open_source
from llm_gym.datasets.graders import LETTERS, ChoiceGrader, FunctionGrader, Grader, get_grader
from llm_gym.datasets.rows import ColumnNames, DatasetRow
from llm_gym.datasets.table import ReadOptions, Table, open_table
from llm_gym.reading.moves import Named

ID = "llm_gym/Dataset-v0"
MAX_ANSWER_CHARS = 4000
_PASSES = 1 << 31
_MARKED = frozenset({"", "action", "answer", "final answer", "final_answer"})


class DatasetEnv(TextEnv):
    """Answer the questions of a data set.

    Description:
        Every episode is a row: its prompt is shown, and the reply is graded against its answer.
        The seed chooses the row: seeds 0 to n - 1 visit each of n rows once, in a shuffled
        order; seeds n to 2n - 1 visit each row again in another order, and so on. The order is
        the same in every process. Resets without a seed go through separate passes. The
        ``split_column`` names the split of a row; without it, a hash of the question does. No
        question is in two splits. The whole file is read and checked when the environment is
        built.

        Without ``dataset``, the environment uses 500 questions that come with llm_gym.

    Actions:
        The answer. The grader decides what it accepts: ``exact`` the same text apart from case,
        white space, quotes and a full stop; ``number`` exactly one number in any notation;
        ``choice`` the letter of an option, such as ``B`` or ``(b)``, or its text; ``contains`` a
        short sentence with the answer and no alternatives. For ``number``, a reply without a
        number or with two is unusable; for ``choice``, a reply that chooses no option.

    Observations:
        First the prompt; later, whether the reply was right, and the turns left. The prompt is not
        repeated. A prompt may be a list of chat messages: a system message goes to the rules, a
        single user message is shown unchanged, and a longer conversation is shown with the roles.

    Rewards:
        1 for a right answer, otherwise 0. A function may grade with a score between 0 and 1; a
        score below 1 is paid for the last attempt only, so attempts do not add up. With
        ``answer=None`` nothing is graded and the reward is 0, for use with a reward function.

    Episode end:
        Terminates on a right answer (won), after ``max_turns`` attempts (lost), and with
        ``answer=None`` after the reply (finished).

    Info:
        ``row`` is the number of the row from 0, ``answer`` the right answer, which no
        observation shows before the end.

    Args:
        dataset: A path to JSONL, CSV, TSV or Parquet; rows, such as a list of dictionaries or a
            ``datasets.Dataset``; an iterable of rows, which is read once into memory; or a
            dictionary from split to one of these.
        prompt: Column of the prompt.
        answer: Column of the answer: a text, a number, or a list of accepted answers. None for
            rows without answers. If prompts are chat messages and the column is missing, the
            assistant's last message is the answer.
        choices: Column of the options, for the ``choice`` grader, which shows them with their
            letters; None if the prompt shows them.
        grader: exact, number, choice or contains; a ``Grader``; or a function of reply and
            answer. If it calls its second argument ``row``, it gets the whole row.
        split: Split to use if ``reset`` names none; None for all rows.
        split_column: Column that holds train, dev or test, if it exists; None ignores it and
            splits by a hash of the question.
        shuffle_seed: Chooses the order of the rows; None keeps the order of the file, so that
            seed 0 is the first row.
        limit: Read only the first ``limit`` rows (of each split of a dictionary); None for all.
        max_turns: Attempts at a question.
        instruction: Replaces the first sentences of the rules.
        **common: See ``TextEnv``.
    """

    is_markov = True
    # A snapshot holds an episode, not a data set.
    _base_not_state = TextEnv._base_not_state | {"_table"}
    no_difficulty = "its rows decide how hard it is"
    move_name = "answer"
    free_text = True
    max_turns: int

    def __init__(
        self,
        *,
        dataset: Any = None,
        prompt: str = "prompt",
        answer: str | None = "answer",
        choices: str | None = "choices",
        grader: str | Grader | Callable[[str, Any], float] = "exact",
        split: str | None = None,
        split_column: str | None = "split",
        shuffle_seed: int | None = 0,
        limit: int | None = None,
        max_turns: int = 1,
        instruction: str | None = None,
        **common: Any,
    ) -> None:
        if limit is not None and limit < 1:
            raise ConfigError(f"limit must be at least 1, got {limit}")
        limit = limit and min(limit, sys.maxsize)
        judge = get_grader(grader)
        graded = answer is not None
        columns = ColumnNames(
            prompt, answer, choices if isinstance(judge, ChoiceGrader) else None, split_column
        )
        self._table: Table = open_table(
            questions.path() if dataset is None else dataset,
            ReadOptions(
                columns, judge, common.get("action_format", "plain"), MAX_ANSWER_CHARS, limit
            ),
        )
        bounded = graded and judge.trusted
        self.max_move_chars = MAX_ANSWER_CHARS if bounded else MAX_ACTION_CHARS
        self.max_observation_chars += self._table.longest + len(instruction or "")
        self.split = None if split is None else splits.check_split(split)
        self.shuffle_seed, self.max_turns, self.instruction = shuffle_seed, max_turns, instruction
        self._graded = graded
        self.free_text = not graded or type(judge).named is Grader.named
        self.mention_is_answer = isinstance(judge, ChoiceGrader)
        self._seed: int | None = None
        self._walks: dict[str | None, int] = {}
        self._row, self._right, self._number = DatasetRow(""), "", 0
        super().__init__(**common)

    def check_settings(self) -> None:
        self.check_range("max_turns", 1)
        if not self._graded and self.max_turns > 1:
            raise ConfigError(
                f"max_turns must be 1 where nothing is graded, got {self.max_turns} and answer=None"
            )
        self._table.count(self.split)  # raises for a split without rows, now and not at reset

    @property
    def grader(self) -> Grader:
        return self._table.plan.grader

    @property
    def num_rows(self) -> int:
        """Rows of the split in use: this many consecutive seeds visit each row once."""
        return self._table.count(self.split)

    def read_row(self, number: int) -> Any:
        """Return a row as it was stored, for reward functions; ``info["row"]`` is its number."""
        return self._table.data(number)

    # --- which row ---------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, Info]:
        """Begin a new episode; ``options`` may hold ``split``, for this episode."""
        self._seed, self._drawn_from = seed, self.split
        state, info = super().reset(seed=seed, options=options)
        return state, info | self._row_info()

    def _base_draw(self, split: object) -> None:
        self._drawn_from = splits.check_split(split)
        self.new_game(self.np_random)

    def new_game(self, rng: np.random.Generator) -> None:
        split, position = self._drawn_from, self._seed
        if position is not None:
            self._walks.clear()
        else:
            if split not in self._walks:
                self._walks[split] = int(rng.integers(_PASSES)) * self._table.count(split)
            position = self._walks[split]
            self._walks[split] += 1
        self._number = self._table.at(position, split, self.shuffle_seed)
        self._row = self._table.fetch(self._number)
        self._right = self._right_answer()

    def instance(self) -> object:
        return (self._row.system, self._row.prompt, self._row.answers)

    def instance_id(self) -> str:
        """Return 16 hex digits that identify this row, the same in every process and file."""
        return self._row.row_id()

    # --- text --------------------------------------------------------------------------------

    def rules_text(self) -> str:
        if self.instruction is not None:
            return self.instruction
        return f"Answer the question. {self.grader.asks}"

    def _base_write_rules(self) -> str:
        if self._graded:
            return super()._base_write_rules()
        return self.instruction or "Answer the message."

    def _base_rules(self) -> str:
        rules = super()._base_rules()
        return f"{self._row.system}\n\n{rules}" if self._row.system else rules

    def example_moves(self) -> Sequence[str]:
        return self.grader.examples

    def describe(self) -> str:
        return f"Turns left: {self.turns_left}." if self._base_turn else self._row.prompt

    def reveal(self) -> str:
        return f"The answer was {self._right}." if self._graded else ""

    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        text, reward, terminated, truncated, info = super().step(action)
        return text, reward, terminated, truncated, info | self._row_info()

    def _row_info(self) -> Info:
        return {"row": self._number, "answer": self._right if self._graded else None}

    # --- the reply ---------------------------------------------------------------------------

    def apply(self, move: str) -> Outcome:
        if not self._graded:
            return end("Thank you.", StopReason.FINISHED)
        row, grader = self._row, self.grader
        value = grader.value(move, row.choices)
        if value is None:
            return reject(f"I cannot use that reply. {grader.asks}")
        if isinstance(grader, FunctionGrader) and grader.takes_row:
            score = grader.score(value, self._table.data(self._number))
        else:
            keys = (grader.key(answer, row.choices) for answer in row.answers)
            score = max(grader.score(value, key) for key in keys)
        if score >= 1.0:
            return win("That is right.")
        return go_on("That is not right.", score if self.turns_left == 1 else 0.0)

    def _right_answer(self) -> str:
        if not self._row.answers:
            return ""
        try:
            return self._say(self._row)
        except ValueError:  # an answer that only the grading function understands
            return str(self._row.answers[0])

    def _say(self, row: DatasetRow) -> str:
        answer = row.answers[0]
        return self.grader.say(answer, self.grader.key(answer, row.choices))

    def named_moves(self, text: str) -> Iterator[Named]:
        return self.grader.named(text, self._row.choices)

    def marked_move(self, label: str, text: str) -> str:
        return text if label in _MARKED else ""

    # --- players -----------------------------------------------------------------------------

    def legal_moves(self) -> Sequence[str] | None:
        if not self._row.choices:
            return None
        return list(LETTERS[: len(self._row.choices)])

    def random_move(self, rng: np.random.Generator) -> str:
        """Return an option, or else the answer to another question."""
        if self._row.choices:
            return super().random_move(rng)
        if not self._graded:
            return self.example_moves()[0]
        return self._say(self._table.fetch(int(rng.integers(len(self._table)))))

    def move_pattern(self) -> str | None:
        if not self._graded:
            return None
        any_char = r"[\s\S]" if self._table.multiline else r"[^\n]"
        return self.grader.pattern or f"{any_char}{{1,{MAX_ANSWER_CHARS}}}"

    def oracle_move(self) -> str:
        if not self._graded:
            raise NotImplementedError("rows without answers have no oracle")
        return self._right

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Answer the questions that come with llm_gym."""
        answer = questions.answer(observations[0].rpartition("\n\n")[2])
        if answer is None:
            raise NotImplementedError("only the questions that come with llm_gym have a solver")
        return answer


def as_dataset_env(
    dataset: Any, *, collate_fn: Callable[[Any], Any] | None = None, **settings: Any
) -> gym.Env[str, str]:
    """Return an environment of ``dataset``, which may be anything that ``DatasetEnv`` takes.

    A file becomes ``llm_gym/Dataset-v0`` with a spec, so that records name it and other processes
    can rebuild it. Rows from memory stay in the environment, and its copies share them. An
    environment is returned unchanged.

    Args:
        dataset: A path, rows, a dictionary of splits, or an environment.
        collate_fn: Converts each row of ``dataset``; the converted rows are kept in memory.
        **settings: Settings of ``DatasetEnv``.

    >>> env = as_dataset_env([{"question": "2 + 2?", "answer": 4}], prompt="question")
    >>> env.reset(seed=0)[0].endswith("2 + 2?"), env.step("4")[1]
    (True, 1.0)
    """
    if isinstance(dataset, gym.Env):
        given = [*settings, *(["collate_fn"] if collate_fn else [])]
        if given:
            raise ConfigError(
                f"an environment has its settings already, got {', '.join(given)} as well"
            )
        return dataset
    if collate_fn is not None:
        dataset = _collate(dataset, collate_fn)
    if isinstance(dataset, (str, os.PathLike)):
        env: gym.Env[str, str] = gym.make(ID, dataset=os.fspath(dataset), **settings)
        return env
    return DatasetEnv(dataset=dataset, **settings)


def _collate(dataset: Any, collate_fn: Callable[[Any], Any]) -> Any:
    if isinstance(dataset, Mapping):
        return {split: _collate(part, collate_fn) for split, part in dataset.items()}
    source = open_source(dataset)
    return [collate_fn(source.data(at)) for at in range(len(source))]
