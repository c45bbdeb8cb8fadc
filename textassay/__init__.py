"""textassay judges generated text with teams of small asynchronous agents."""
