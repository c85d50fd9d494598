"""Errors raised by llm_gym.

Every error is an ``LLMGymError`` *and* the builtin it refines, so callers may catch either.
Each takes one string, so it pickles across processes. Model-written text never raises: a bad
move is an observation, not an exception.
"""


class LLMGymError(Exception):
    """Base class of every error raised by llm_gym."""


class ConfigError(LLMGymError, ValueError):
    """Something was built or reset with a value it cannot honour."""


class ActionTypeError(LLMGymError, TypeError):
    """``step`` was given something that is not a ``str``."""


class ContractError(LLMGymError, AssertionError):
    """An environment breaks a rule that every text environment keeps."""


class RecordError(LLMGymError, ValueError):
    """A file of episodes or questions holds something that is neither."""


class WorkerError(LLMGymError, RuntimeError):
    """An environment among many raised, hung or died."""


class RemoteError(LLMGymError, ConnectionError):
    """A server of environments cannot be reached, refuses, or makes no sense."""
