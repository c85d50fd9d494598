"""The inner half of the sandbox: the worker process and the children it forks.

It runs as a program of its own and imports only the standard library, so a child starts small.
Start reading at ``fork_server``. Only a Linux worker runs these modules; they import anywhere.
"""

FOLDER = "/sandbox"
"""The folder that a namespaced child may write to."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
NOBODY = 65534
"""User and group id that replace root."""
