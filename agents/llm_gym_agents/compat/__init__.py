"""The older public names, thin over the real implementation."""
