"""FifteenPuzzle: slide the tiles into order. Start reading at ``env``."""
