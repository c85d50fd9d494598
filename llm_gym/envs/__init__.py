"""The games, by family. ``registry/suite.py`` has a row for each configuration."""
