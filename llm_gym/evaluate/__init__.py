"""How good a player is, and whether an environment keeps the contract."""
