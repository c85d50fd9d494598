"""Environments that are played on another machine: the client of ``llm-gym serve``.

``wire`` is the language, ``connection`` speaks it, ``session`` is one row of it with the memory to
begin again elsewhere; ``env`` and ``vector`` are what Gymnasium sees.
"""
