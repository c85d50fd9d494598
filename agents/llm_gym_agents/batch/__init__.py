"""Episodes become packed tensors."""
