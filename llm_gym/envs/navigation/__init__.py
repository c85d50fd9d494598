"""Games in which the player walks through rooms or grids."""
