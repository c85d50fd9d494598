"""Board and card games against a scripted opponent."""
