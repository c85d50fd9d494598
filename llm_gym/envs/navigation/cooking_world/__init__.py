"""CookingWorld: a meal by the cookbook, in TextGame's world. Start reading at ``env``."""
