"""Several processes that are one bot, over RabbitMQ and PostgreSQL."""
