"""Many processes that are one bot: gateways have the channels, workers the conversations."""
