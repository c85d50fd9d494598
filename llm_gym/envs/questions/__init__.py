"""A question, and an answer that is right or wrong."""
