"""The context as a picture: `/context map`."""
