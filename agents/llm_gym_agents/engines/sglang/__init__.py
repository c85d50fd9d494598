"""SGLang, through its server."""
