"""Half-price batches of requests: the queue that cuts them, its journal, and the providers that run them."""
