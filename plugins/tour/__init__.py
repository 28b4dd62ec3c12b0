"""`/tour`: what the context does, tried on an example conversation that comes with the project
(`example.toml`). No model is asked, and nothing is spent."""
