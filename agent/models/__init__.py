"""The models. `base` is the contract; the other modules are its backends."""
