"""Sokoban: push every box home. Start reading at ``env``."""
