"""A policy plays environments: tasks become episodes."""
