"""Tables: how one row is read, what a table keeps of its file, and the order of a pass."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.core.errors import ConfigError, RecordError
from llm_gym.datasets.graders import get_grader
from llm_gym.datasets.rows import ColumnNames, read_row
from llm_gym.datasets.table import ReadOptions, open_table, shuffled
from tests.datasets.rows import PLAN, ROWS, as_jsonl, write


def chat(*turns):
    return [{"role": role, "content": content} for role, content in turns]


def test_a_conversation_becomes_a_prompt_and_its_last_message_the_answer():
    prompt = chat(("user", "Hi."), ("assistant", "Hello."), ("user", "2 + 2?"))
    row = read_row({"prompt": prompt, "answer": 4}, ColumnNames())
    assert row.prompt == "User: Hi.\n\nAssistant: Hello.\n\nUser: 2 + 2?"
    prompt = chat(("system", "Be brief."), ("user", "2 + 2?"), ("assistant", "4"))
    row = read_row({"messages": prompt}, ColumnNames(prompt="messages"))
    assert (row.system, row.prompt, row.answers) == ("Be brief.", "2 + 2?", ("4",))
    parts = [{"type": "text", "text": "2 + "}, {"type": "text", "text": "2?"}]
    assert (
        read_row({"prompt": chat(("user", parts)), "answer": 4}, ColumnNames()).prompt == "2 + 2?"
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "no column 'prompt', it has none; say which one holds the prompt with prompt="),
        ({"question": "?", "answer": 1}, "no column 'prompt', it has 'question', 'answer'"),
        ({"prompt": "?"}, "no column 'answer'"),
        ({"prompt": " \n", "answer": 1}, "'prompt' is empty"),
        ({"prompt": 3, "answer": 1}, "text or chat messages, got 3"),
        ({"prompt": [], "answer": 1}, r"text or chat messages, got \[\]"),
        ({"prompt": ["hi"], "answer": 1}, "role and content, got 'hi'"),
        ({"prompt": chat(("king", "hi")), "answer": 1}, "got 'king'"),
        ({"prompt": chat(("user", None)), "answer": 1}, "must hold text"),
        ({"prompt": chat(("user", [{"type": "image"}])), "answer": 1}, "must hold text"),
        ({"prompt": chat(("system", "hi")), "answer": 1}, "must hold one from the user"),
        ({"prompt": chat(("user", "a"), ("assistant", "b")), "answer": 1}, "not be the assistant"),
        ({"prompt": "?", "answer": None}, "must be text or a number, got None"),
        ({"prompt": "?", "answer": " "}, "the answer is empty"),
        ({"prompt": "?", "answer": []}, "accepted answers is empty"),
        ({"prompt": "?", "answer": {"a": 1}}, "must be text or a number"),
        ({"prompt": "?", "answer": 1, "split": "tain"}, "train, dev or test, got 'tain'"),
        ({"prompt": "?", "answer": 1, "options": "AB"}, "choices"),
        ({"prompt": "?", "answer": 1, "options": ["a"]}, "2 to 26 choices, got 1"),
        ({"prompt": "?", "answer": 1, "options": ["a", None]}, "an option must be .*, got None"),
        ([1], "a row must have named columns, got list"),
    ],
)
def test_a_bad_row_is_refused_with_the_reason(row, message):
    with pytest.raises(ValueError, match=message):
        read_row(row, ColumnNames(choices="options"))


def test_the_question_id_ignores_spaces_and_the_answer():
    rows = [
        read_row({"prompt": p, "answer": a}, ColumnNames()) for p, a in [("a b", 1), ("a  b\n", 2)]
    ]
    assert rows[0].question_id() == rows[1].question_id()
    assert rows[0].row_id() != rows[1].row_id()
    assert rows[0].row_id()[:8] == rows[1].row_id()[:8]


def test_a_file_is_cached_until_it_changes(tmp_path):
    path = as_jsonl(tmp_path / "a.jsonl")
    table = open_table(path, PLAN)
    assert open_table(str(path), PLAN) is table
    assert open_table(path, ReadOptions(ColumnNames(), get_grader("number"))) is not table
    as_jsonl(path, ROWS[:3])
    assert len(open_table(path, PLAN)) == 3


def test_a_table_pickles_as_a_reference_and_copies_as_itself(tmp_path):
    import copy

    rows = [{"prompt": f"{n}?", "answer": n} for n in range(2000)]
    table = open_table(as_jsonl(tmp_path / "a.jsonl", rows), PLAN)
    data = pickle.dumps(table)
    assert len(data) < 1000
    assert pickle.loads(data).fetch(1999) == table.fetch(1999)
    assert copy.deepcopy(table) is table
    kept = open_table(iter(rows), PLAN)
    assert pickle.loads(pickle.dumps(kept)).fetch(1999) == table.fetch(1999)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [("two\nlines", "'plain'"), ("<think>x</think>", "'plain'"), ("x" * 4001, "4000")],
)
def test_an_answer_that_no_player_can_write_is_named(answer, reason):
    with pytest.raises(RecordError, match=rf"row 7: .*{reason}"):
        open_table([*ROWS, {"prompt": "?", "answer": answer}], PLAN)


def test_no_rows_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r"a\.jsonl"):
        open_table(write(tmp_path / "a.jsonl", []), PLAN)


@given(st.integers(1, 300), st.integers(0, 50), st.integers())
def test_a_pass_visits_every_row_once(size, turn, key):
    visited = [shuffled(turn * size + at, size, key) for at in range(size)]
    assert sorted(visited) == list(range(size))


def test_passes_and_keys_have_different_orders():
    orders = {tuple(shuffled(turn * 20 + at, 20) for at in range(20)) for turn in range(30)}
    assert len(orders) == 30
    assert [shuffled(at, 20, 1) for at in range(20)] != [shuffled(at, 20, 2) for at in range(20)]
    first = [shuffled(5 * turn, 5) for turn in range(2000)]
    assert all(330 < first.count(row) < 470 for row in range(5))  # 400 expected, sigma 18
    assert len({shuffled(at, 10**12) for at in range(100)}) == 100
