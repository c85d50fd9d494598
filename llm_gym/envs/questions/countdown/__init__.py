"""Countdown: reach a number with the numbers given. Start reading at ``env``."""
