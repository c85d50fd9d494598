"""``llm-gym serve``: an environment for players elsewhere.

``sessions`` are the environments that are being played, ``work`` plays them, ``app`` is the
address, ``rows`` and ``openenv`` are the two languages it speaks, ``websocket`` makes the second
one quick, and ``run`` is the one door to uvicorn.
"""
