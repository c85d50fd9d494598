"""Types of settings that pydantic lacks: names, devices, JSON, fractions."""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from llm_gym.core.text import did_you_mean

_CODE = re.compile(r"[\w.]+:\w+")


def _need(accepted: bool, what: str) -> None:
    if not accepted:
        raise PydanticCustomError("value", f"Input should be {what}")


def _text(value: str) -> str:
    _need(bool(value.strip()), "text that is not blank")
    return value


def _device(value: str) -> str:
    found = re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", value)
    _need(found is not None, "auto, cpu, mps, cuda or cuda with a number (cuda:1)")
    return value


def _tracker(value: str) -> str:
    known = re.fullmatch(r"(wandb|trackio)/.+", value)
    _need(known is not None, "wandb/PROJECT or trackio/PROJECT")
    return value


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
PLAYERS = ("auto", "random", "reflex", "solver", "none")


def _named(
    built_in: Sequence[str], own: str = "module:function", registry: str = ""
) -> Callable[[str], str]:
    """Return a check that a value is one of some names, or code of the user (``own``).

    A registry of ``llm_gym_agents.algo`` may have more names. Code that adds a name imports
    ``algo``; before that import, only the built-in names exist.
    """

    def check(value: str) -> str:
        found = getattr(sys.modules.get("llm_gym_agents.algo"), registry, None)
        names = built_in if found is None else found.names()
        known = value in names or _CODE.fullmatch(value) is not None
        _need(known, f"one of {', '.join(names)}, or {own}{did_you_mean(value, names)}")
        return value

    return check


def _player(value: str) -> str:
    known = value in PLAYERS or value.endswith(".jsonl")
    _need(known, f"one of {', '.join(PLAYERS)}, or FILE.jsonl{did_you_mean(value, PLAYERS)}")
    return value


Backend = Annotated[str, AfterValidator(_named(BACKENDS, "module:Class"))]
Estimator = Annotated[str, AfterValidator(_named(ESTIMATORS, registry="ADVANTAGES"))]
Loss = Annotated[str, AfterValidator(_named(LOSSES, registry="POLICY_LOSSES"))]
WarmStartPlayer = Annotated[str, AfterValidator(_player)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, AfterValidator(_text)]
Tracker = Annotated[str, AfterValidator(_tracker)]
Device = Annotated[str, AfterValidator(_device)]
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
