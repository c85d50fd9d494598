"""Our environments in other trainers; ``docs/serve_and_export.md`` has ten lines for each.

``episode`` is one episode as a conversation, ``rows`` are data sets of them; the other files are
each the shape that one trainer wants, and import its package late.
"""
