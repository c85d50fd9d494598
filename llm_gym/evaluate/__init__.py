"""How good a player is, and whether an environment keeps the contract."""

REPLY_TOKENS, THOUGHT_TOKENS = 64, 1024
"""Most tokens of a reply by default, and of one with a thought before it."""
