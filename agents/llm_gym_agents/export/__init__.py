"""Our environments in other trainers; ``docs/serve_and_export.md`` has ten lines for each.

``episodes`` holds what all of them share; each other file serves one trainer and imports its
package late.
"""
