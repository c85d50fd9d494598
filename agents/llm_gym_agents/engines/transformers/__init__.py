"""Continuous batching on a transformers model, in this process."""
