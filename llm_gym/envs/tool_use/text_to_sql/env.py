"""Write the SQL that answers a question about a database; ``questions.txt`` lists the questions."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from llm_gym import Outcome, lose, reject, setting, win
from llm_gym.envs.tool_use.text_to_sql import world
from llm_gym.envs.tool_use.tool_env import ToolEnv
from llm_gym.tools.builtin.sql import Database, SqlTool
from llm_gym.tools.definition import Tool, ToolError

COMPARE = {"above": ">", "at least": ">=", "below": "<", "at most": "<="}
MANY = {"at least": ">=", "more than": ">", "exactly": "="}
EXTREMES = {"largest": "DESC", "smallest": "ASC"}
AGGREGATES = {"average": "avg", "largest": "max", "smallest": "min", "total": "sum"}


class QuestionTemplate(NamedTuple):
    """A question, its SQL answer, and the number of tables it needs."""

    question: str
    sql: str
    tables: int


def _load() -> tuple[QuestionTemplate, ...]:
    """Read ``questions.txt``: each heading starts the questions that need one more table."""
    home = resources.files("llm_gym.envs.tool_use.text_to_sql")
    rows, tables = [], 0
    for block in home.joinpath("questions.txt").read_text("ascii").strip().split("\n\n"):
        if block.startswith("#"):
            tables += 1
        else:
            question, sql = block.split("\n")
            rows.append(QuestionTemplate(question, sql, tables))
    return tuple(rows)


QUESTIONS = _load()
Blanks = dict[str, Any]

_WORDS = {
    "compare": ("op", COMPARE), "b_compare": ("b_op", COMPARE), "m_compare": ("m_op", COMPARE),
    "many": ("many_op", MANY), "extreme": ("direction", EXTREMES),
    "aggregate": ("function", AGGREGATES),
}  # fmt: skip
"""Blanks with a fixed choice of words: the blank of the SQL, and what each word is there."""


def _pattern(question: str) -> re.Pattern[str]:
    parts, seen = re.split(r"\{(\w+)\}", question), set[str]()
    for at in range(1, len(parts), 2):
        name = parts[at]
        content = "|".join(_WORDS[name][1]) if name in _WORDS else r"[\w-]+"
        parts[at] = f"(?P={name})" if name in seen else f"(?P<{name}>{content})"
        seen.add(name)
    parts[::2] = [re.escape(part) for part in parts[::2]]
    return re.compile("".join(parts))


_PATTERNS = [_pattern(row.question) for row in QUESTIONS]


def draw_question(rng: np.random.Generator, schema: world.Schema) -> tuple[int, Blanks]:
    """Return a question that needs all tables of ``schema``: its number and its blanks."""
    fitting = [at for at, row in enumerate(QUESTIONS) if row.tables == schema.tables]
    number = fitting[int(rng.random() * len(fitting))]
    turned = schema.tables == 3 and rng.random() < 0.5
    (a, word, column), (b, b_word, b_column) = schema.things(turned), schema.things(not turned)
    links, amount = world.DOMAINS[schema.domain], schema.columns[4]
    k, k_step = _inside(rng, *a.numbers[column])
    j, _ = _inside(rng, *b.numbers[b_column])
    m, _ = _inside(rng, *links.numbers[amount])
    words = {name: _one_of(rng, list(meanings)) for name, (_, meanings) in _WORDS.items()}
    return number, words | {
        "a": a.table, "word": word, "number": column, "v": _one_of(rng, a.words[word]),
        "b": b.table, "b_word": b_word, "b_number": b_column, "b_v": _one_of(rng, b.words[b_word]),
        "links": links.links, "amount": amount, "k": k, "k2": k + k_step, "j": j, "m": m,
        "t": 2 * m, "few": 2 + int(3 * rng.random()),
    }  # fmt: skip


def _one_of(rng: np.random.Generator, values: Sequence[str]) -> str:
    return values[int(rng.random() * len(values))]


def _inside(rng: np.random.Generator, low: int, high: int) -> tuple[int, int]:
    """Return a number well inside a range, and a step that stays in it."""
    width = high - low
    return low + max(int((0.1 + 0.65 * rng.random()) * width), 1), max(width // 5, 2)


def ask(number: int, blanks: Blanks) -> str:
    """Return the question in words."""
    return QUESTIONS[number].question.format(**blanks)


def answer(number: int, blanks: Blanks, keys: dict[str, str]) -> str:
    """Return the SQL that answers a question.

    Args:
        number: Which question.
        blanks: The words that fill its blanks.
        keys: For each table of things, the column that refers to it.
    """
    meant = {blank: sql[blanks[name]] for name, (blank, sql) in _WORDS.items() if name in blanks}
    return QUESTIONS[number].sql.format(
        **blanks,
        **meant,
        a_id=keys.get(blanks.get("a", ""), ""),
        b_id=keys.get(blanks.get("b", ""), ""),
    )


def read_keys(schema: str) -> dict[str, str]:
    """Return the column that refers to each table, from the statements that create them.

    >>> read_keys("CREATE TABLE orders (id INTEGER, customer_id INTEGER REFERENCES customers(id))")
    {'customers': 'customer_id'}
    """
    found = re.findall(r"(\w+) INTEGER REFERENCES (\w+)\(id\)", schema)
    return {table: column for column, table in found}


def read_question(text: str) -> tuple[int, Blanks] | None:
    """Return the question in ``text``: its number and its blanks.

    >>> read_question("How many books are there whose length is above 120?")
    (0, {'a': 'books', 'number': 'length', 'compare': 'above', 'k': '120'})
    """
    for number, pattern in enumerate(_PATTERNS):
        if found := pattern.search(text):
            return number, found.groupdict()
    return None


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
        Every episode invents a small database and a question about it. The answer is a query. It
        is graded by its result, on this database and on hidden ones with the same tables, whose
        rows test edge cases: values at the limits in the question, and ties for first place. So
        a query that only repeats a result, or is right by chance, fails.

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

    usage = "Your move must be 'sql: SELECT ...' or 'answer: SELECT ...'."

    tables: int = setting(2, 1, 3)
    rows: int = setting(20, 4, 200)
    max_turns: int = setting(5, 1)

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        return {"tables": 1 + round(2 * difficulty), "rows": round(10 + 90 * difficulty)}

    def new_game(self, rng: np.random.Generator) -> None:
        self.forget()
        self._schema = world.draw_schema(rng, self.tables)
        self._number, self._blanks = draw_question(rng, self._schema)
        # The rows are created when a query first needs them.
        self._seed, self._twin_seed = (int(rng.random() * 2**53) for _ in range(2))
        self._made = self._schema.sql()
        self._question = f"{self._made}\n{ask(self._number, self._blanks)}"

    def tools(self) -> list[Tool]:
        return [SqlTool(world.fill(self._schema, self.rows, self._seed))]

    def sample_tools(self) -> list[Tool]:
        return [SqlTool("SELECT 1;")]

    def rules_text(self) -> str:
        return (
            "Write an SQLite query that answers the question. A move is either 'sql: SELECT ...', "
            "which runs a query and shows its result, or 'answer: SELECT ...', which ends the "
            "game. The rows of the answer count, in any order, and they must be right for other "
            "data in the same tables too."
        )

    def example_moves(self) -> Sequence[str]:
        return ["sql: SELECT * FROM books LIMIT 3", "answer: SELECT count(*) FROM books"]

    def question(self) -> str:
        return self._question

    @property
    def _gold(self) -> str:
        return answer(self._number, self._blanks, read_keys(self._made))

    def answer(self, text: str) -> Outcome:
        if text == self._gold:  # the same rows in every database
            return win("Yes, that is right.")
        scripts = [world.fill(self._schema, self.rows, self._seed)]
        scripts += [
            world.draw_twin(self._schema, self._blanks, self._twin_seed, at)
            for at in range(len(world.TWINS))
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
        return self._question  # the answer does not depend on the rows

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
        """Translate the question into SQL, try the query, then give it as the answer."""
        question = read_question(observations[0])
        assert question is not None, "the first observation holds the question"
        keys = read_keys(observations[0])
        query = answer(*question, keys)
        tried = {"".join(move.split()) for move in moves}
        return f"answer: {query}" if "".join(f"sql:{query}".split()) in tried else f"sql: {query}"
