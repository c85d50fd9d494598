"""Input that strangers might send, made up once: tests take some of it, ``harden.py`` all."""
