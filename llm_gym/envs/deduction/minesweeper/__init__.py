"""Minesweeper: open every safe cell. Start reading at ``env``."""
