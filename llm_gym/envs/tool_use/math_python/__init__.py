"""MathPython: problems that a program solves. Start reading at ``env``."""
