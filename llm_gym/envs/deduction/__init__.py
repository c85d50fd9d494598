"""Games in which the player finds something hidden from partial answers."""
