"""A session as a page: data, fragments of HTML, one file that stands alone."""
