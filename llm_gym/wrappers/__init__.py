"""Wrappers that change one thing each."""

from llm_gym.wrappers.as_text import AsText
from llm_gym.wrappers.format_reward import FormatReward
from llm_gym.wrappers.limits import EpisodeLimits, MaxInvalid, TokenBudget
from llm_gym.wrappers.record_episodes import RecordEpisodes
from llm_gym.wrappers.state_info import StateInfo
from llm_gym.wrappers.tool_use import ToolUse
from llm_gym.wrappers.transcript import ChatObservation, TranscriptObservation

__all__ = [
    "AsText", "ChatObservation", "EpisodeLimits", "FormatReward", "MaxInvalid", "RecordEpisodes",
    "StateInfo", "TokenBudget", "ToolUse", "TranscriptObservation",
]  # fmt: skip
