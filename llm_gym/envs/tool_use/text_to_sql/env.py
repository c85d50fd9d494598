"""Write the SQL that answers a question about a database."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from llm_gym.core.outcome import Outcome, lose, reject, win
from llm_gym.core.settings import setting
from llm_gym.envs.tool_use.text_to_sql import questions as sql_questions
from llm_gym.envs.tool_use.text_to_sql.world import TWINS, draw_schema, draw_twin, fill
from llm_gym.envs.tool_use.tool_env import ToolEnv
from llm_gym.tools.builtin.sql import Database, SqlTool
from llm_gym.tools.definition import Tool, ToolError

Rows = list[tuple[Any, ...]]


def same_rows(first: Rows, second: Rows) -> bool:
    """Return whether two results hold the same rows, in any order.

    >>> same_rows([(1, "a"), (2, "b")], [(2.0, "b"), (1, "a")]), same_rows([(1,)], [(1,), (1,)])
    (True, False)
    """
    sides = (Counter(tuple(map(_rounded, row)) for row in rows) for rows in (first, second))
    return next(sides) == next(sides)


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


class TextToSQLEnv(ToolEnv):
    """Answer a question about a database with a query.

    Description:
        A small database is made up: its tables, their rows and a question. The answer is a
        query, and what counts is its result: here and on other databases with the same tables,
        whose rows lie on the limits that the question names and share first places. A result
        that was copied into the query does not pass, nor does a query that is right by chance.

    Actions:
        ``sql: SELECT ...`` runs a query and shows its result, ``answer: SELECT ...`` answers.
        An answer that cannot be run is unusable.

    Observations:
        The result of the last query, the tables, the question and the turns left.

    Rewards:
        1 if the answer has the right rows, in any order, on all databases; otherwise 0.

    Episode end:
        Terminates with the answer, won or lost, and after ``max_turns`` moves (lost).

    Args:
        tables: Tables of the database that the question needs, 1 to 3.
        rows: Rows of the first table, 4 to 200; the others have half and twice as many.
        max_turns: Moves allowed, answers included.
        **common: See ``ToolEnv`` and ``TextEnv``.
    """

    tables: int = setting(2, 1, 3)
    rows: int = setting(20, 4, 200)
    max_turns: int = setting(5, 1)

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        return {"tables": 1 + round(2 * difficulty), "rows": round(10 + 90 * difficulty)}

    def new_game(self, rng: np.random.Generator) -> None:
        self.forget()
        self._schema = draw_schema(rng, self.tables)
        self._number, self._blanks = sql_questions.draw_question(rng, self._schema)
        # The rows are made when a query first needs them.
        self._seed, self._twin_seed = (int(rng.random() * 2**53) for _ in range(2))
        self._made = self._schema.sql()
        self._question = f"{self._made}\n{sql_questions.ask(self._number, self._blanks)}"

    def tools(self) -> list[Tool]:
        return [SqlTool(fill(self._schema, self.rows, self._seed))]

    def sample_tools(self) -> list[Tool]:
        return [SqlTool("SELECT 1;")]

    def rules_text(self) -> str:
        return (
            "Write an SQLite query that answers the question. A move is either 'sql: SELECT ...', "
            "which runs a query and shows its result, or 'answer: SELECT ...', which ends the "
            "game. The rows of the answer count, in any order, and they must be right for other "
            "data in the same tables too."
        )

    @property
    def usage(self) -> str:
        return "Your move must be 'sql: SELECT ...' or 'answer: SELECT ...'."

    def example_moves(self) -> Sequence[str]:
        return ["sql: SELECT * FROM books LIMIT 3", "answer: SELECT count(*) FROM books"]

    def question(self) -> str:
        return self._question

    @property
    def _gold(self) -> str:
        keys = sql_questions.read_keys(self._made)
        return sql_questions.answer(self._number, self._blanks, keys)

    def answer(self, text: str) -> Outcome:
        if text == self._gold:  # the same rows in every database
            return win("Yes, that is right.")
        scripts = [fill(self._schema, self.rows, self._seed)]
        scripts += [
            draw_twin(self._schema, self._blanks, self._twin_seed, at) for at in range(len(TWINS))
        ]
        for script in scripts:
            database = Database(script)
            try:
                given, wanted = database.query(text)[1], database.query(self._gold)[1]
            except ToolError as error:
                return reject(f"Your answer cannot be run. {error}")
            if not same_rows(given, wanted):
                return lose(f"No. {self.reveal()}")
        return win("Yes, that is right.")

    def reveal(self) -> str:
        return f"A right answer is: {self._gold}"

    def instance(self) -> object:
        return self._question  # whatever the rows are, the answer is the same

    def swap_secret(self, rng: np.random.Generator) -> bool:
        """Fill the tables with other rows, unless the player has looked at them."""
        if self._registry is not None:
            return False
        self._seed = int(rng.integers(2**53))
        return True

    def random_move(self, rng: np.random.Generator) -> str:
        table = (self._blanks["a"], self._blanks["links"])[int(rng.random() * min(self.tables, 2))]
        name = "sql" if rng.random() < 0.6 else "answer"
        return f"{name}: SELECT count(*) FROM {table} WHERE id > {int(rng.random() * self.rows)}"

    def move_pattern(self) -> str | None:
        return r"(?:sql|answer): [^\n]{1,4000}"

    def oracle_move(self) -> str:
        name = "sql" if self._base_turn == 0 and self.max_turns > 1 else "answer"
        return f"{name}: {self._gold}"

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Translate the question, try the query and hand it in."""
        question = sql_questions.read_question(observations[0])
        assert question is not None, "the first observation holds the question"
        keys = sql_questions.read_keys(observations[0])
        query = sql_questions.answer(*question, keys)
        tried = {"".join(move.split()) for move in moves}
        return f"answer: {query}" if "".join(f"sql:{query}".split()) in tried else f"sql: {query}"
