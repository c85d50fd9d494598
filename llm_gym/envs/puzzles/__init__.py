"""Everything is in sight; what is hard is the order of moves."""
