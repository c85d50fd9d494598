"""Measure how well a player plays, and check that an environment keeps the contract."""

REPLY_TOKENS, THOUGHT_TOKENS = 64, 1024
"""Default token limits of a reply, without and with reasoning before it."""
