"""The trainer: builds a run, its folder and its processes. Read ``ppo_trainer`` first.

``ray/`` samples on Ray actors; ``process_group`` trains on several GPUs.
"""
