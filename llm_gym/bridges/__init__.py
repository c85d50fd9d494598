"""Environments of other suites, each behind its own extra: see ``docs/other_libraries.md``.

``rng_guard`` keeps their randomness apart, ``base`` is what they share, and the other files are
bridges.
"""
