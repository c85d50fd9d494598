"""Policy and value losses, KL, importance weights."""
