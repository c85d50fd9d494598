"""What can be made, by name: the suite's rows, bridges, and classes of the user's."""
