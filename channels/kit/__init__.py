"""The kit that all messengers share. A channel implements only its platform's differences
(`Platform`), and `Messenger` makes a channel of it."""
