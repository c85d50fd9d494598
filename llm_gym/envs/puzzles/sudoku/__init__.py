"""Sudoku: fill the grid. Start reading at ``env``."""
