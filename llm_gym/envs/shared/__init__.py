"""What games of several families use."""
