"""Tiny games that test one skill each, to check a trainer in seconds."""
