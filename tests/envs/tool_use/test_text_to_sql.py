"""TextToSQL: invented databases, questions, and answers judged by their rows."""

import numpy as np
import pytest

from llm_gym.envs.tool_use.text_to_sql.env import (
    QUESTIONS,
    TextToSQLEnv,
    answer,
    ask,
    draw_question,
    read_keys,
    read_question,
    same_rows,
)
from llm_gym.envs.tool_use.text_to_sql.world import DOMAINS, draw_schema, fill
from llm_gym.tools.builtin.sql import Database
from tests.envs.playing import episodes, start_game
from tests.envs.tool_use.sql_mutants import mutants


@pytest.fixture
def env():
    made = start_game("TextToSQL")
    yield made
    made.close()


@pytest.mark.parametrize("tables", [1, 2, 3])
def test_every_question_can_be_read_back_and_answered(tables):
    seen = set()
    for seed in range(150):
        rng = np.random.default_rng(seed)
        schema = draw_schema(rng, tables)
        number, blanks = draw_question(rng, schema)
        seen.add(number)
        keys = read_keys(schema.sql())
        query = answer(number, blanks, keys)
        read = read_question(ask(number, blanks))
        assert read is not None
        assert read[0] == number
        assert answer(*read, keys) == query
        database = Database(fill(schema, 20, seed))
        assert database.query(query)[0]
    assert seen == {at for at, row in enumerate(QUESTIONS) if row.tables == tables}
    assert len(seen) >= 12


def test_databases_have_the_rows_they_should():
    for at in range(len(DOMAINS)):
        schema = next(
            found
            for seed in range(100)
            if (found := draw_schema(np.random.default_rng(seed), 3)).domain == at
        )
        database = Database(fill(schema, 30, 5))
        domain = DOMAINS[at]
        for table, count in (
            (domain.first.table, 30),
            (domain.second.table, 15),
            (domain.links, 60),
        ):
            assert database.query(f"SELECT count(*) FROM {table}")[1] == [(count,)]
        lost = f"SELECT count(*) FROM {domain.links} WHERE {domain.first.one}_id NOT IN (SELECT id FROM {domain.first.table})"  # noqa: E501
        assert database.query(lost)[1] == [(0,)]
        assert fill(schema, 30, 5) == fill(schema, 30, 5) != fill(schema, 30, 6)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ([(1,), (2,)], [(2,), (1,)], True), ([(1,)], [(1,), (1,)], False), ([], [], True),
        ([(1.0,)], [(1,)], True), ([(0.1 + 0.2,)], [(0.3,)], True), ([(None,)], [(0,)], False),
        ([("1",)], [(1,)], False), ([(1, 2)], [(2, 1)], False),
    ],
)  # fmt: skip
def test_results_are_compared_as_bags_of_rows(first, second, same):
    assert same_rows(first, second) is same


def test_the_right_query_and_an_equivalent_one_win(env):
    saved, gold = env.snapshot(), env._gold
    assert env.step(f"answer: {gold}")[1] == 1.0
    env.restore(saved)
    assert env.step(f"answer: SELECT * FROM ({gold}) AS inner_query ORDER BY 1 DESC;")[1] == 1.0


def test_a_result_copied_into_the_query_does_not_pass():
    tried = 0
    for env in episodes("TextToSQL", 20, tables=1):
        if "count(*) FROM" not in env._gold or "GROUP" in env._gold:
            continue
        shown = env.step(f"sql: {env._gold}")[0].splitlines()[1]
        _, reward, terminated, *_ = env.step(f"answer: SELECT {shown}")
        tried += reward == 0.0 and terminated
        assert terminated
    assert tried >= 3


def test_a_query_with_one_mistake_loses():
    """Of 100 mutants (comparison, limit, tie-break, column, aggregate ...) at most one wins."""
    won, tried = [], 0
    for tables in (1, 2, 3):
        env = TextToSQLEnv(tables=tables, rows=20)
        for seed in range(1000, 1010):
            env.reset(seed=seed)
            saved, gold = env.snapshot(), env._gold
            for kind, query in mutants(gold, env._blanks):
                env.restore(saved)
                *_, info = env.step(f"answer: {query}")
                tried += info["valid_action"]
                won += [(seed, kind, query)] * info["success"]
            env.restore(saved)
            assert env.step(f"answer: {gold}")[1] == 1.0
        env.close()
    assert tried > 140
    assert len(won) <= 0.01 * tried, won


def test_a_wrong_query_loses_and_shows_a_right_one(env):
    gold = env._gold
    obs, reward, terminated, *_ = env.step("answer: SELECT 'nothing of the kind'")
    assert (obs, reward, terminated) == (f"No. A right answer is: {gold}", 0.0, True)


def test_settings_have_an_effect():
    for tables in (1, 2, 3):
        env = TextToSQLEnv(tables=tables)
        assert env.reset(seed=1)[0].count("CREATE TABLE") == tables
    env = start_game("TextToSQL", rows=50)
    assert "50" in env.step(f"sql: SELECT count(*) FROM {env._blanks['a']}")[0]
    env.close()
