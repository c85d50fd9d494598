"""Advantage estimators, on the flat stream of sampled tokens."""
