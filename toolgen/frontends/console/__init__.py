"""The console: what a person sees of a gateway in a browser, and where they answer for calls."""
