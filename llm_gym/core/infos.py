"""Reading ``info``, where environments of other people keep what they like, under our names too.

What cannot be read is as good as not said: nobody's dictionary ends a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_NUMBERS = (bool, int, float, np.bool_, np.number)


def flag(info: Mapping[str, Any], name: str) -> bool | None:
    """Return whether ``info`` says yes or no under ``name``; None where it says neither.

    >>> flag({"success": np.True_}, "success"), flag({"success": "no"}, "success")
    (True, None)
    """
    value = info.get(name)
    return bool(value) if isinstance(value, _NUMBERS) else None


def reward_terms(info: Mapping[str, Any]) -> dict[str, float]:
    """Return what a reward is made of, as far as ``info`` says it in numbers.

    >>> reward_terms({"reward_terms": {"goal": 1, "why": "near"}}), reward_terms({})
    ({'goal': 1.0}, {})
    """
    told = info.get("reward_terms")
    if not isinstance(told, Mapping):
        return {}
    return {str(name): float(each) for name, each in told.items() if isinstance(each, _NUMBERS)}
