"""Questions that tools answer."""
