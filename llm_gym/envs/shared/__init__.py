"""Helpers that several families of games use."""
