"""A run: from its settings to its parts, its folder and its processes. Read ``ppo_trainer`` first.

``ray/`` plays on actors, ``process_group`` learns over several processes.
"""
