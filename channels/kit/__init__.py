"""What all messengers have in common. A channel for one is what its platform makes different
(`Platform`), and `Messenger` makes a channel of it."""
