"""Half-price batches of requests.

The queue that cuts them, its journal, and the providers that run them.
"""
