"""Tensors become weights, and weights reach the engines."""
