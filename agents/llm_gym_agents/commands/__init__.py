"""What the trainer adds to the ``llm-gym`` command, through its entry points."""
