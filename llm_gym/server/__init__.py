"""``llm-gym serve`` and ``llm_gym/Remote-v0``: an environment played over HTTP.

``protocol`` defines the messages. The server: ``sessions`` holds the environments and runs their
steps, ``app`` answers HTTP, ``openenv`` answers WebSockets, ``run`` starts uvicorn. The client,
``remote_env``, sends requests and is a Gymnasium environment.
"""
