"""Learning: from a batch of episodes to new weights, and their way to the engines."""
