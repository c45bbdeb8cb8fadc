"""Half-price batches of requests: the queue, its journal, and the providers that run them."""
