"""A service of a compose file, as a container of Moorage."""
