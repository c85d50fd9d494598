"""The inner half of the sandbox: what runs in the worker process.

It is started as a program of its own and imports only the standard library, so that a call begins
in a small process. ``zygote`` is where to start reading.
"""
