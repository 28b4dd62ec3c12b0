"""`/tour`: the features of the context, shown with an example conversation that comes with the
project (`example.toml`). No model is called, and it costs nothing."""
