"""A page that shows what a policy did: run, episodes, tokens, groups, suite.

``sources`` finds what there is to see in the folders and files that were named, ``index`` knows
where each episode lies in its file, ``api`` answers the page's questions, ``server`` guards the
door, ``export`` writes everything into one file. The page itself is in ``static``: plain ES modules
without a framework and without a build, so what is in the tree is what runs.
"""
