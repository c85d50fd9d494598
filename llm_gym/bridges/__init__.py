"""Environments of other suites as ours, each behind an extra of its own: see ``docs/bridges.md``.

``foreign`` keeps their randomness apart, ``base`` is what they have in common, and every other file
is the bridge to one suite.
"""
