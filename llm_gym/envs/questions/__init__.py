"""Single questions with an answer that is right or wrong."""
