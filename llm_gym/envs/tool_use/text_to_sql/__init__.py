"""TextToSQL: answer questions with SQL queries. Start reading at ``env``."""
