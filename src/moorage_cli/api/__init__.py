"""The API as its description tells it; all of this is generated."""
