"""Reads a model's reply: a move of a game (markup, answer, moves) or tool calls (parsers)."""
