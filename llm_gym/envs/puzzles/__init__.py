"""Puzzles with full information; the difficulty is to plan the moves."""
