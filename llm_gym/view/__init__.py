"""A page that shows what a policy did: run, episodes, tokens, groups, suite.

``sources`` finds runs and episodes in the given folders and files and indexes them, ``api`` answers
the page's requests, ``server`` controls access, ``export`` writes everything into one file. The
page itself is in ``static``: plain ES modules without a framework and without a build step.
"""
