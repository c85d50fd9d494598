"""Something is hidden, and every answer tells a part of it."""
