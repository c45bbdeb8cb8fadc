"""The sections of the page.

Each module turns runs and data into what its template shows, or `None`.
"""
