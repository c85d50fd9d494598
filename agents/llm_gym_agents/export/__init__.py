"""Use llm_gym environments in other trainers: see ``docs/other_libraries.md``.

``episodes`` holds what all of them share; each other file serves one trainer and imports its
package late.
"""
