"""The sections of the page: each module turns runs and data into what its template shows, or `None`."""
