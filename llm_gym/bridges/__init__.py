"""Environments of other suites, each behind its own extra: see ``docs/other_libraries.md``.

``rng_guard`` isolates their random generators, ``base`` is their base class, and each other file is
one bridge.
"""
