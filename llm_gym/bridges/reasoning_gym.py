"""reasoning-gym's data sets, scored by their own scorers: ``llm_gym/ReasoningGym-v0``."""

import json
from collections.abc import Mapping
from typing import Any, Literal, Unpack

import numpy as np

from llm_gym.bridges import base
from llm_gym.core.errors import ConfigError

_ROWS = 2**31 - 1
# These draw all their rows when they are built, so each episode builds one with a single row.
_DRAWN_UP_FRONT = {"acre", "composite", "gsm_symbolic", "list_functions", "word_ladder"}
_HOW = "Write your answer between <answer> and </answer>."


class ReasoningGymEnv(base.BridgeEnv):
    """A question of reasoning-gym.

    Description:
        One row of a data set for each episode, generated from the seed, and one reply.

    Actions:
        The answer between ``<answer>`` tags, as the suite's own prompts ask for it; a reply
        without tags is taken whole. Another ``action_format`` replaces the tags.

    Observations:
        The question, then the score with the right answer where the data set knows one.

    Rewards:
        The score that the data set's own scorer gives the answer, knowing the row; with
        ``reward="success"`` only the full score of 1 pays.

    Episode end:
        After one answer: won with the full score.

    Info:
        The common keys; ``foreign`` has ``score`` and ``answer`` at the end.

    Args:
        env_id: A data set, such as ``countdown``.
        config: Settings of the data set, such as ``{"max_numbers": 4}``; ``composite`` takes
            ``datasets``, a list of dictionaries with ``name``, ``weight`` and ``config``.
        reward: ``score``, or ``success``: many scorers pay for any answer that contains the right
            one, and that can be farmed.
        **common: See ``BridgeEnv``.
    """

    move_name = "answer"
    examples = ("42", "yes", "ABC")

    def __init__(
        self,
        *,
        env_id: str = "countdown",
        config: Mapping[str, Any] | None = None,
        reward: Literal["score", "success"] = "score",
        **common: Unpack[base.BridgeArgs],
    ) -> None:
        suite = base.need_package("reasoning_gym")
        known = base.need_package("reasoning_gym", "reasoning_gym.factory").DATASETS
        base.choose("env_id", env_id, known)
        if reward not in ("score", "success"):
            raise ConfigError(f"reward must be 'score' or 'success', got {reward!r}")
        if taken := {"seed", "size"} & set(config or {}):
            raise ConfigError(f"config must leave {', '.join(taken)} to reset(seed=...)")
        self.dataset, self.config, self.reward = env_id, dict(config or {}), reward
        super().__init__(**common)
        self._suite = suite
        self._extract = base.need_package("reasoning_gym", "reasoning_gym.utils").extract_answer
        self._rows: Any = None
        if env_id not in _DRAWN_UP_FRONT:
            with self._rng_guard:
                self._rows = self._build(seed=0, size=_ROWS)
        self._row: dict[str, Any] = {}

    def begin(self, seed: int) -> str:
        if self._rows is None:
            self._scorer = self._build(seed=seed, size=1)
            self._row = self._scorer[0]
        else:
            self._scorer, self._row = self._rows, self._rows[seed]
        question = str(self._row["question"])
        self.instance = self.dataset, question
        return question if self.format.how else f"{question}\n\n{_HOW}"

    def play(self, text: str) -> base.BridgeStep:
        answer = text if self.format.how else self._extract(text) or text
        try:
            score = float(self._scorer.score_answer(answer, self._row))
        except Exception:  # noqa: BLE001 - an answer that crashes the scorer is wrong
            score = 0.0
        won, right = score >= 1.0, self._row["answer"]
        solution = "" if right is None or won else f" The answer: {right}"
        reward = score if self.reward == "score" else float(won)
        foreign = {"score": score, "answer": right}
        stop = base.verdict(True, won)
        return base.BridgeStep(f"Score: {score:g}.{solution}", reward, stop, True, foreign)

    def random_move(self, rng: np.random.Generator) -> str:
        """Return a small number, which is the answer of many questions."""
        return self._tagged(str(int(rng.integers(100))))

    def oracle_move(self) -> str:
        if self._row["answer"] is None:
            raise NotImplementedError(f"a row of {self.dataset} has no answer, only a scorer")
        return self._tagged(str(self._row["answer"]))

    def _tagged(self, answer: str) -> str:
        return answer if self.format.how else f"<answer>{answer}</answer>"

    def _build(self, **where: int) -> Any:
        config, given = dict(self.config), json.dumps(self.config, default=str)
        with base.building(f"{self.dataset} cannot be built with {given}"):
            if self.dataset == "composite":
                spec = base.need_package("reasoning_gym", "reasoning_gym.composite").DatasetSpec
                config["datasets"] = [spec(**row) for row in config.get("datasets", [])]
            return self._suite.create_dataset(self.dataset, **config, **where)
