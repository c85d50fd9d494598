"""Blackjack: beat the dealer. Start reading at ``env``."""
