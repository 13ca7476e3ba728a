"""Sessions of many people in one place: the collector on each machine, the lake that its segments become."""
