"""A session as a page: data, pieces of HTML, one file that stands alone. No web framework here."""
