"""Mastermind: find the code. Start reading at ``env``."""
