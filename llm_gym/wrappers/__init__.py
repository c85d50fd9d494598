"""Wrappers that change one thing each."""

from llm_gym.wrappers.limits import EpisodeLimits

__all__ = ["EpisodeLimits"]
