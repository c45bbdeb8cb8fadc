"""What the models of this process share: a work queue, files, tokens, scores and answers."""
