"""Where the words come from. `base` is the contract, the other modules are its backends."""
