"""What can be made, by name: the suite's rows, other people's plugins."""
