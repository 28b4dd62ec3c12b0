"""The context: the view that the model sees, the meter, the strategies and their carrying out."""
