"""One skill each, small enough to prove a trainer in seconds."""
