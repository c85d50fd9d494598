"""What an environment is made of: the base class, its outcomes, formats, spaces and splits."""
