"""Somebody plays against you."""
