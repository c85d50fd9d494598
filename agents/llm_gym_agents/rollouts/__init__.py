"""Environments times policy: named tasks become episodes."""
