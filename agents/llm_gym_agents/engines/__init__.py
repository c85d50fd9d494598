"""Inference engines: token ids in, token ids and log-probs out. Start reading at ``base``."""
