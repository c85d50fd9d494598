"""Fused kernels for the head, each behind a door of its own; ``choice`` says which is used."""
