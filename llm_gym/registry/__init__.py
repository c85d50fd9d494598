"""Environments by name: those of the suite, the bridges, and the user's own classes."""
