"""The context: the view that the model sees, the meter, the strategies and the code that applies
them."""
