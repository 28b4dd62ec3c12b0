"""Facts of texts, found without a model: names, values, numbers, dates, requests, sentences."""
