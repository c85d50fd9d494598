"""Environments of other suites as ours, each behind an extra of its own: see ``docs/bridges.md``.

``rng_guard`` keeps their randomness apart, ``base`` is what they share, and the other files are
bridges.
"""
