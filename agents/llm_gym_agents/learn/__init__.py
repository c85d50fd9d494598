"""Learning: from a batch of episodes to new weights."""
