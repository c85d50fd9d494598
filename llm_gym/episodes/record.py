"""``Trajectory``: the record of one episode, in Python and as one line of JSON.

The JSON line has the same field names, so ``docs/evaluate.md`` documents both. Lists with one entry
per turn are called columns: ``actions[t]``, ``rewards[t]`` and ``infos[t]`` belong to turn ``t``.
There is one more state than there are actions: ``states[t]`` is what the player read before
``actions[t]``, and the last state is what the final action led to. ``Tokens`` holds the token ids
and what a trainer computed for each of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from llm_gym.core.errors import RecordError
from llm_gym.core.infos import flag, reward_terms
from llm_gym.core.outcome import StopReason
from llm_gym.core.outcome import stop_reason as why_stopped
from llm_gym.episodes import encoding


@dataclass
class Tokens:
    """What the model read and wrote in an episode, token by token.

    Every array must be as long as ``ids``. Arrays and tensors may be assigned; they are written as
    lists.
    """

    ids: list[int] = field(default_factory=list)
    """Token ids."""
    log_probs: list[float] | None = None
    """Log-probability when sampled; NaN for a prompt token."""
    values: list[float] | None = None
    """Value estimate before the update; NaN for a prompt token, also in the arrays below."""
    advantages: list[float] | None = None
    """Advantage."""
    true_advantages: list[float] | None = None
    """Advantage measured by extra episodes from the turn (``llm-gym eval --credit``); else NaN."""
    ratios: list[float] | None = None
    """Probability in the trainer before the update, divided by the sampler's probability."""
    entropies: list[float] | None = None
    """Entropy of the policy in nats, in the trainer before the update."""
    trained_on: list[bool] | None = None
    """Whether the token was part of the loss."""
    weights_versions: list[int] | None = None
    """Version of the weights that sampled the turn."""
    turns: list[int] | None = None
    """Turn of the token; the final observation has the number after the last turn."""
    texts: list[str] | None = None
    """The token's text. A character that spans several tokens belongs to the last one."""

    def to_dict(self) -> dict[str, Any]:
        data = encoding.write_fields(self, TOKEN_FIELDS, "tokens.")
        _check_arrays(data)
        return data

    @staticmethod
    def from_dict(data: Any) -> Tokens:
        if not isinstance(data, dict):
            raise RecordError(f"tokens must be an object, got {encoding.describe_value(data)}")
        tokens = Tokens(**encoding.read_fields(data, TOKEN_FIELDS, "tokens."))
        _check_arrays(vars(tokens))
        return tokens


TOKEN_FIELDS = encoding.fields_of(Tokens)
TOKENS = encoding.SingleField("a Tokens object", lambda tokens: tokens.to_dict(), Tokens.from_dict)


def _check_arrays(arrays: Mapping[str, Any]) -> None:
    length = len(arrays["ids"])
    for name, values in arrays.items():
        if values is not None and len(values) != length:
            raise RecordError(
                f"tokens.{name} must be as long as tokens.ids, got {len(values)} for {length}"
            )
    turns = arrays["turns"] or [0]
    if turns[0] < 0 or any(turn < before for before, turn in pairwise(turns)):
        raise RecordError("tokens.turns must be whole numbers from 0 on that never go down")


SCHEMA = 1
"""Version of the record format. Records of another version are refused."""

ENV_REWARDS = "env_rewards"
"""Key in ``extra``: the environment's rewards, if ``rewards`` come from a reward function."""

_STOP_REASONS = frozenset(StopReason)
_PER_TURN = ("rewards", "dones", "infos", "moves", "terminated", "truncated")


@dataclass(eq=False)
class Trajectory:
    """One episode.

    Lists may be filled by hand, in part, and in any order; ``to_json`` checks that they fit
    together. A column that was not recorded stays empty.

    >>> episode = Trajectory(states=["Hot or cold?", "Yes."], actions=["hot"])
    >>> episode.rewards, episode.dones = [1.0], [True]
    >>> episode.num_turns, episode.total_reward, episode.final_state
    (1, 1.0, 'Yes.')
    >>> Trajectory.from_json(episode.to_json()) == episode
    True
    """

    states: list[str] = field(default_factory=list)
    """Observation before each action, and the final one if it was kept."""
    actions: list[str] = field(default_factory=list)
    """The model's complete replies."""
    rewards: list[float] = field(default_factory=list)
    """Reward of each turn."""
    dones: list[bool] = field(default_factory=list)
    """Whether the turn ended the episode."""
    infos: list[dict[str, Any]] = field(default_factory=list)
    """``info`` of each step."""
    moves: list[str | None] = field(default_factory=list)
    """The move that the environment found in each action; None if none."""
    terminated: list[bool] = field(default_factory=list)
    """Whether the rules of the game ended the episode."""
    truncated: list[bool] = field(default_factory=list)
    """Whether a limit outside the game ended the episode."""
    messages: list[dict[str, Any]] = field(default_factory=list)
    """The conversation as ``role`` and ``content``, with the system prompt first."""
    tokens: Tokens | None = None
    """Token arrays."""
    episode_id: str | int | None = None
    """Identifies the episode within its run."""
    group: str | int | None = None
    """Episodes of one group are compared with each other."""
    seed: int | None = None
    """Seed given to ``reset``."""
    options: dict[str, Any] | None = None
    """Options given to ``reset``, including ``split``."""
    env_id: str | None = None
    """Id of the environment; ``module:Class`` if it has no spec."""
    env_spec: dict[str, Any] | None = None
    """The ``EnvSpec`` of the environment, with arguments and wrappers."""
    instance_id: str | None = None
    """Identifies the instance; given by the environment."""
    policy: str | None = None
    """Name of the model or player."""
    weights_version: int | None = None
    """Version of the weights that the episode began with."""
    reset_info: dict[str, Any] | None = None
    """``info`` that ``reset`` returned."""
    extra: dict[str, Any] | None = None
    """Anything else."""
    _stop_reason: StopReason | None = field(default=None, init=False, repr=False)
    _success: bool | None = field(default=None, init=False, repr=False)

    # --- what the lists say --------------------------------------------------------------

    @property
    def num_turns(self) -> int:
        """Number of actions."""
        return len(self.actions)

    @property
    def total_reward(self) -> float:
        """Sum of the rewards."""
        return float(sum(self.rewards))

    @property
    def reward_terms(self) -> list[dict[str, float]]:
        """The named parts of each reward."""
        return [reward_terms(info) for info in self.infos]

    @property
    def final_state(self) -> str | None:
        """Observation after the last action; None if it was not kept."""
        return self.states[-1] if len(self.states) == len(self.actions) + 1 else None

    @property
    def split(self) -> str | None:
        """The split that the instance was drawn from."""
        return (self.options or {}).get("split")

    @property
    def stop_reason(self) -> StopReason:
        """Why the episode stopped.

        By default the reason in the last turn. Code that ends an episode from outside (full
        context, failed environment) assigns it, even if the episode has no turn.
        """
        if self._stop_reason is not None:
            return self._stop_reason
        if len(self.dones) == 0 or not self.dones[-1]:
            return StopReason.PLAYING
        flags = (True, False)
        if len(self.terminated) > 0 and len(self.truncated) > 0:
            flags = (self.terminated[-1], self.truncated[-1])
        return why_stopped(*flags, self.infos[-1] if self.infos else {})

    @stop_reason.setter
    def stop_reason(self, reason: StopReason | str) -> None:
        self._stop_reason = StopReason(reason)

    @property
    def success(self) -> bool:
        """Whether the episode was won: the assigned value, or else the last ``info``'s."""
        if self._success is not None:
            return self._success
        return bool(self.infos and flag(self.infos[-1], "success"))

    @success.setter
    def success(self, success: bool) -> None:
        self._success = bool(success)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trajectory):
            return NotImplemented
        names = (*FIELDS, "stop_reason", "success")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    # --- JSON ----------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the record as one line of strict JSON in ASCII, without a newline."""
        columns = encoding.write_fields(self, FIELDS)
        _check_columns(columns)
        data: dict[str, Any] = {"schema": SCHEMA, **columns}
        data |= {"stop_reason": str(self.stop_reason), "success": self.success}
        data["return"] = encoding.NUMBER.to_json(self.total_reward)
        try:
            return json.dumps(data, allow_nan=False, separators=(",", ":"))
        except ValueError as error:  # a number of thousands of digits as a seed or a token id
            raise RecordError(f"the record cannot be written as JSON: {error}") from error

    @staticmethod
    def from_json(line: str) -> Trajectory:
        """Return the episode that ``to_json`` wrote. Raises ``RecordError`` for anything else."""
        data = _load(line)
        stop, success, _ = (data.pop(name, None) for name in DERIVED)
        episode = Trajectory(**encoding.read_fields(data, FIELDS))
        _check_columns(vars(episode))
        for info in (*episode.infos, episode.reset_info or {}):
            if _is_stop_reason(info.get("stop_reason")):
                info["stop_reason"] = StopReason(info["stop_reason"])
        if stop is not None and stop != episode.stop_reason:
            if not _is_stop_reason(stop):
                known = ", ".join(StopReason)
                raise RecordError(
                    f"stop_reason must be one of {known}, got {encoding.describe_value(stop)}"
                )
            episode.stop_reason = stop
        if success is not None and success is not episode.success:
            episode.success = encoding.FLAG.convert("from_json", "success", success)
        return episode


FIELDS = encoding.fields_of(Trajectory, messages=encoding.MESSAGES, tokens=TOKENS)
DERIVED = ("stop_reason", "success", "return")
"""Computed from the other fields, and written for readers of the raw file."""


def _load(line: str) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except json.JSONDecodeError as error:
        raise RecordError(
            f"the record is not JSON: {error.msg} at character {error.pos + 1}"
        ) from error
    except (ValueError, RecursionError) as error:  # endless digits or endless brackets
        raise RecordError(f"the record is not JSON: {error}") from error
    if not isinstance(data, dict) or "schema" not in data:
        raise RecordError("this is JSON but no episode record: it has no schema")
    schema = data.pop("schema")
    if type(schema) is not int or schema != SCHEMA:
        raise RecordError(f"the record has schema {schema!r:.40}, this llm_gym reads {SCHEMA}")
    return data


def _check_columns(columns: Mapping[str, Any]) -> None:
    turns, states = len(columns["actions"]), len(columns["states"])
    if states not in (0, turns, turns + 1):
        raise RecordError(
            f"states must be one more than actions (or as many), got {states} states for "
            f"{turns} actions"
        )
    for name in _PER_TURN:
        if len(columns[name]) not in (0, turns):
            raise RecordError(
                f"{name} must be as long as actions or empty, got {len(columns[name])} for "
                f"{turns} actions"
            )
    terminated, truncated = columns["terminated"], columns["truncated"]
    if len(terminated) != len(truncated):
        raise RecordError("terminated and truncated must be recorded both or not at all")
    over = [a or b for a, b in zip(terminated, truncated, strict=True)]
    if terminated and columns["dones"] != over:
        raise RecordError("dones must be true exactly where terminated or truncated is true")
    if isinstance(tokens := columns["tokens"], Tokens):
        tokens = vars(tokens)
    last = tokens["turns"][-1] if tokens and tokens["turns"] else 0
    if last > turns:
        raise RecordError(f"tokens.turns must be at most the {turns} turns played, got {last}")


def _is_stop_reason(value: object) -> bool:
    return isinstance(value, str) and value in _STOP_REASONS
