"""The error of this package: data that no estimator can use."""

from __future__ import annotations

from llm_gym.errors import ConfigError


class StreamError(ConfigError):
    """A batch of tokens breaks a rule that every estimator and loss relies on."""
