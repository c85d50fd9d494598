"""Maze: find the way out. Start reading at ``env``."""
