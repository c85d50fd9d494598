"""WordLadder: one letter at a time. Start reading at ``env``."""
