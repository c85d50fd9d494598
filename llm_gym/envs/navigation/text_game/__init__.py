"""TextGame: quests in a generated world. Start reading at ``env``."""
