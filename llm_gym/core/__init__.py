"""The parts of an environment: base class, outcomes, settings, spaces and splits."""
