"""Answer a question by searching a collection of documents, hop by hop."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from llm_gym import Outcome, lose, setting, win
from llm_gym.envs.tool_use import fact_world
from llm_gym.envs.tool_use.tool_env import ToolEnv, parse_call
from llm_gym.tools.builtin.search import SearchTool, words
from llm_gym.tools.definition import Tool

_RESULT = re.compile(r"^\[\d+\] ([^:\n]+): (.*)$", re.MULTILINE)
_ARTICLES = frozenset(("a", "an", "the"))


def same_answer(first: str, second: str) -> bool:
    """Return whether two answers are the same but for case, articles and punctuation.

    >>> same_answer("the Silent Bridge.", "Silent bridge"), same_answer("Norvik", "Torvik")
    (True, False)
    """
    sides = ([word for word in words(text) if word not in _ARTICLES] for text in (first, second))
    return next(sides) == next(sides)


class SearchQAEnv(ToolEnv):
    """Find an answer that no document gives alone.

    Description:
        Every episode draws a world of invented people, works, companies, cities and countries,
        with one document about each. The question follows a chain of facts, such as the country
        of the birthplace of the author of a work: each document leads to the next.

    Actions:
        ``search: words`` shows the best matching documents, ``answer: text`` answers.

    Observations:
        The best documents for the last search, the question and the turns left.

    Rewards:
        1 for the right answer, otherwise 0. Case, articles and punctuation do not matter.

    Episode end:
        Terminates with the answer, won or lost, and after ``max_turns`` moves (lost).

    Args:
        hops: Facts in the chain, 1 to 6.
        documents: Approximate size of the collection, 20 to 400. All but ``hops`` are distractors.
        results: Documents shown per search.
        max_turns: Moves allowed, answers included.
        **common: See ``ToolEnv`` and ``TextEnv``.
    """

    usage = "Your move must be 'search: words' or 'answer: text'."

    hops: int = setting(2, 1, 6)
    documents: int = setting(40, 20, 400)
    results: int = setting(3, 1, 10)
    max_turns: int = setting(6, 1)

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        hops = round(1 + 4 * difficulty)
        return {"hops": hops, "documents": round(20 + 180 * difficulty), "max_turns": hops + 4}

    def new_game(self, rng: np.random.Generator) -> None:
        self.forget()
        chain = None
        while chain is None:
            self._world = fact_world.draw_world(rng, self.documents)
            chain = fact_world.draw_chain(rng, self._world, self.hops)
        self._start, self._chain = chain
        self._shown: set[str] = set()  # titles of documents that the player has seen

    @property
    def _way(self) -> list[str]:
        return fact_world.follow(self._world, self._start, self._chain)

    def tools(self) -> list[Tool]:
        corpus = {
            subject: fact_world.document(subject, facts) for subject, facts in self._world.items()
        }
        return [SearchTool(corpus, results=self.results)]

    def sample_tools(self) -> list[Tool]:
        return [SearchTool({})]

    def rules_text(self) -> str:
        return (
            "Answer the question. A move is either 'search: words', which shows the "
            f"{self.results} documents of a collection that fit the words best, or 'answer: text', "
            "which ends the game."
        )

    def example_moves(self) -> Sequence[str]:
        return ["search: Mila Farrow", "answer: Norvik"]

    def question(self) -> str:
        return fact_world.ask(self._start, self._chain)

    def apply(self, move: str) -> Outcome:
        outcome = super().apply(move)
        self._shown.update(title for title, _ in _RESULT.findall(outcome[0]))
        return outcome

    def answer(self, text: str) -> Outcome:
        right = self._way[-1]
        if same_answer(text, right):
            return win(f"Yes, it is {right}.")
        return lose(f"No, it is {right}.")

    def reveal(self) -> str:
        return f"The answer was {self._way[-1]}."

    def instance(self) -> object:
        return (self.question(), self._way[-1])

    def swap_secret(self, rng: np.random.Generator) -> bool:
        """Give the last subject of the chain another value, unless its document was shown."""
        *_, last, value = self._way
        if last in self._shown:
            return False
        relation = self._chain[-1]
        others = sorted({facts.get(relation, value) for facts in self._world.values()} - {value})
        if not others:
            return False
        self._world[last][relation] = others[int(rng.integers(len(others)))]
        self.forget()
        return True

    def random_move(self, rng: np.random.Generator) -> str:
        text = self._base_observations[-1]
        seen = re.findall(r"[A-Z][a-z]+(?: [A-Z][a-z]+)*", text)
        word = seen[int(rng.random() * len(seen))]
        return f"{'search' if rng.random() < 0.6 else 'answer'}: {word}"

    def move_pattern(self) -> str | None:
        return r"(?:search|answer): [^\n]{1,500}"

    def oracle_move(self) -> str:
        way, turn = self._way, self._base_turn
        if turn < min(self.hops, self.max_turns - 1):
            return f"search: {way[turn]}"
        return f"answer: {way[-1]}"

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Follow the chain: search for each subject and read on from its document."""
        question = fact_world.read_question(observations[0])
        assert question is not None, "the first observation holds the question"
        here, chain = question
        shown = {title: text for each in observations for title, text in _RESULT.findall(each)}
        for relation in chain:
            value = fact_world.fact(shown.get(here, ""), here, relation)
            if value is None:
                break
            here = value
        else:
            return f"answer: {here}"
        tries = sum(parse_call(move) == ("search", here) for move in moves)
        # A document names its subject in every sentence, so repeating the name finds it.
        return f"search: {' '.join([here] * (tries + 1))}"

    def potential(self) -> float:
        """Share of the documents of the chain that have been shown."""
        way = self._way[:-1]
        return sum(name in self._shown for name in way) / len(way)
