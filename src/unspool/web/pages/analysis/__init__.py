"""Pages that explain sessions: their cost, their time, and how two of them differ. Each has `routes`."""
