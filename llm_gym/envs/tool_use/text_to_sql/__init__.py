"""TextToSQL: questions that a query answers. Start reading at ``env``."""
