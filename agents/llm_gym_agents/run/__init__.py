"""Files of a run: metrics, checkpoints and diagnostics."""
