"""Game2048: slide and merge tiles. Start reading at ``env``."""
