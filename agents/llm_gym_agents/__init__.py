"""Token-level RL for language models, on TorchRL."""
