"""What a model wrote: a move of a game (markup, answer, moves) or calls of tools (parsers)."""
