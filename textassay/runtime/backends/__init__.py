"""Who answers: one module per kind of model, and the probes that find out what a model can do."""
