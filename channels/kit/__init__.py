"""The kit that all messengers have in common. A channel is written as what its platform makes
different (`Platform`), and `Messenger` makes a channel of it."""
