"""FrozenLake: cross the ice. Start reading at ``env``."""
