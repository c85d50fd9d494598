"""Calculator and search."""

import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.core.errors import ConfigError
from llm_gym.tools import ToolError, ToolRegistry, get_tool
from llm_gym.tools.builtin.calculator import calculate
from llm_gym.tools.builtin.search import BM25, SearchTool, words
from tests.work import ends_at_all, steps_of


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 1", "2"), ("7 // 2", "3"), ("7 % 4", "3"), ("2 ** 10", "1024"), ("2^10", "1024"),
        ("-3 ** 2", "-9"), ("10 / 4", "2.5"), ("6 / 3", "2"), ("1e3", "1000"), ("0", "0"),
        ("sqrt(16)", "4"), ("Max(1, 2.5)", "2.5"), ("round(2.567, 2)", "2.57"), ("3 × 4 − 2", "10"),
        ("factorial(20)", str(math.factorial(20))), ("comb(10, 3)", "120"), ("gcd(12, 18)", "6"),
        ("pi", "3.14159265359"), ("0.1 + 0.2", "0.3"), ("1234567 * 7654321", "9449772114007"),
    ],
)  # fmt: skip
def test_expressions_are_calculated(expression, value):
    assert calculate(expression) == value


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("1 / 0", "Division by zero"), ("1 +", "not an arithmetic"), ("", "not an arithmetic"),
        ("9 ** 9 ** 9 ** 9", "bits"), ("factorial(100000)", "up to 1000"), ("sqrt(-1)", "no value"),
        ("(-8) ** 0.5", "real number"), ("1e308 * 10", "too large"), ("min(x=1)", "numbers"),
        ("__import__('os')", "numbers"), ("().__class__", "numbers"), ("[1]", "numbers"),
        ("open('/etc/passwd')", "numbers"), ("1 if 1 else 2", "numbers"), ("lambda: 1", "numbers"),
        ("True", "numbers"), ("'a' * 9", "numbers"), ("x", "numbers"), ("sin()", "no value"),
        ("eval(1)", "no function eval"), ("(" * 400, "not an arithmetic"), ("1;2", "not an arith"),
        ("9" * 501, "at most 500"), ("\x00", "not an arithmetic"), ("10**3000 * 10**3000", "bits"),
        ("10**400 * 1.5", "no value"), ("round(1, -9999999)", "digits"), ("comb(1e9, 2)", "up to"),
    ],
)  # fmt: skip
def test_other_and_too_large_expressions_are_refused(expression, reason):
    with pytest.raises(ToolError, match=reason):
        calculate(expression)


@given(st.text(alphabet="0123456789.+-*/%^() eE,<>&|~sqrtpimaxfl_'\"[]", max_size=120))
def test_any_expression_is_a_number_or_a_reason_in_few_steps(text):
    def read():
        try:
            float(calculate(text))
        except ToolError as error:
            assert str(error)  # noqa: PT017

    with ends_at_all():  # one step may multiply numbers of any size
        assert steps_of(read) < 5000


DOCUMENTS = ["the cat sat", "the dog sat on the cat", "a bird flew", "cat cat cat"]


def by_hand(documents, query, k1=1.2, b=0.75):
    """BM25 as in the textbook, one document at a time."""
    bags = [words(document) for document in documents]
    mean = sum(map(len, bags)) / len(bags)
    scores = []
    for bag in bags:
        score = 0.0
        for word in set(words(query)):
            n = sum(word in other for other in bags)
            tf = bag.count(word)
            idf = math.log(1 + (len(bags) - n + 0.5) / (n + 0.5))
            score += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(bag) / mean))
        scores.append(score)
    return scores


def test_scores_are_those_of_the_formula():
    for query, constants in (
        ("cat", {}), ("the cat sat", {}), ("bird on", {}), ("dog dog dog", {}),
        ("cat", {"k1": 0.1}), ("cat", {"b": 0.0}),
    ):  # fmt: skip
        expected = by_hand(DOCUMENTS, query, **constants)
        found = dict(BM25(DOCUMENTS, **constants).search(query, 10))
        assert found == pytest.approx({at: s for at, s in enumerate(expected) if s > 0})


def test_results_are_ranked_with_positive_scores():
    assert [at for at, _ in BM25(["x y", "x y", "z"]).search("x", 5)] == [0, 1]
    assert BM25([]).search("x", 5) == []
    assert BM25(["", ""]).search("x", 5) == []
    assert BM25(["a b"]).search("", 5) == []
    rng = np.random.default_rng(0)
    documents = [" ".join(rng.choice(list("abcdef"), 6)) for _ in range(50)]
    assert all(score > 0 for _, score in BM25(documents).search("a b c d e f", 50))


def test_search_shows_titles_and_beginnings():
    tool = SearchTool({"Cats": "Cats purr." * 9, "Dogs": "Dogs bark."}, results=1, snippet_chars=10)
    assert tool.execute(query="cats dogs purr") == "[1] Cats: Cats purr."
    assert tool.execute(query="whales") == "No document matches."
    assert ToolRegistry([tool]).execute_tool("search", query=" ") == (False, "The query is empty.")
    assert tool.execute(query="cats " * 5000).startswith("[1] Cats")


def test_search_reads_a_file_and_pickles(tmp_path):
    path = tmp_path / "corpus.json"
    path.write_text(json.dumps({"A": "apple", "B": "banana"}))
    tool = get_tool("search", corpus=str(path))
    assert tool.execute(query="banana") == "[1] B: banana"
    assert pickle.loads(pickle.dumps(tool)).execute(query="apple") == "[1] A: apple"
    path.write_text("[1]")
    for corpus, settings, why in (
        (str(path), {}, "object of texts"), (str(tmp_path / "none.json"), {}, "cannot read"),
        ({}, {"results": 0}, "results"), ({}, {"snippet_chars": 0}, "snippet_chars"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=why):
            SearchTool(corpus, **settings)
