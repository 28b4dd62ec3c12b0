"""What the model sees: the view, the meter, the strategies and their carrying out."""
