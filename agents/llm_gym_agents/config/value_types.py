"""Types of settings that pydantic lacks: names, devices, JSON, fractions."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from llm_gym.core.text import did_you_mean

_CODE = r"[\w.]+:\w+"


def _need(accepted: bool, what: str) -> None:
    if not accepted:
        raise PydanticCustomError("value", f"Input should be {what}")


def _matching(pattern: str, what: str) -> AfterValidator:
    def check(value: str) -> str:
        _need(re.fullmatch(pattern, value) is not None, what)
        return value

    return AfterValidator(check)


def _json(value: Any) -> Any:
    """Return a copy of a mapping, which must survive writing and reading as JSON."""
    given = dict(value) if isinstance(value, Mapping) else value
    try:
        copied = json.loads(json.dumps(given, allow_nan=False))
    except (TypeError, ValueError):
        copied = None
    _need(isinstance(given, dict) and copied == given, "a dictionary of JSON values")
    return copied


def _mix(value: dict[str, Any]) -> dict[str, float]:
    """Return the weights of environments as floats; NaN and infinity are no JSON values."""
    for env_id, weight in value.items():
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        _need(bool(env_id.strip()) and is_number and weight > 0, "ids with weights above 0")
    return {env_id: float(weight) for env_id, weight in value.items()}


# Copies of the names in ``algo``, which needs torch; a test holds them equal.
ESTIMATORS = (
    *("dr_grpo", "gae", "gae_turn", "gigpo", "grpo", "reinforce_plus_plus"),
    *("reinforce_plus_plus_baseline", "rloo", "state_td", "vine"),
)
LOSSES = ("cispo", "gspo", "ppo")


BACKENDS = ("transformers", "vllm", "sglang")
PLAYERS = ("auto", "random", "best_random", "reflex", "solver", "none")


def _named(
    built_in: Sequence[str], own: str = "module:function", pattern: str = _CODE, registry: str = ""
) -> AfterValidator:
    """Return a check that a value is one of some names, or matches ``pattern``, shown as ``own``.

    A registry of ``llm_gym_agents.algo`` may have more names. Code that adds a name imports
    ``algo``; before that import, only the built-in names exist.
    """

    def check(value: str) -> str:
        found = getattr(sys.modules.get("llm_gym_agents.algo"), registry, None)
        names = built_in if found is None else found.names()
        known = value in names or re.fullmatch(pattern, value) is not None
        _need(known, f"one of {', '.join(names)}, or {own}{did_you_mean(value, names)}")
        return value

    return AfterValidator(check)


Backend = Annotated[str, _named(BACKENDS, "module:Class")]
Estimator = Annotated[str, _named(ESTIMATORS, registry="ADVANTAGES")]
Loss = Annotated[str, _named(LOSSES, registry="POLICY_LOSSES")]
WarmStartPlayer = Annotated[str, _named(PLAYERS, "FILE.jsonl", r"(?s).*\.jsonl")]
Fraction = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, _matching(r"(?s).*\S.*", "text that is not blank")]
Tracker = Annotated[str, _matching(r"(wandb|trackio)/.+", "wandb/PROJECT or trackio/PROJECT")]
Device = Annotated[
    str,
    _matching(r"auto|cpu|mps|cuda(:\d+)?", "auto, cpu, mps, cuda or cuda with a number (cuda:1)"),
]
JSONDict = Annotated[dict[str, Any], BeforeValidator(_json)]
Mix = Annotated[dict[str, Any], BeforeValidator(_json), AfterValidator(_mix)]
Split = Literal["train", "dev", "test"]
# A copy of ``algo.AGGREGATIONS``, which needs torch; a test holds them equal.
Aggregation = Literal[
    "token-mean",
    "token-sum",
    "seq-mean-token-sum",
    "seq-mean-token-mean",
    "seq-mean-token-sum-norm",
]
