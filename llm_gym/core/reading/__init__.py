"""One reader of replies for all games. Start reading at ``reader``."""
