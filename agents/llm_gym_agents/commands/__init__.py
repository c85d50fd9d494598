"""The trainer's commands of ``llm-gym``, registered as entry points."""
