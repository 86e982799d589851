"""What the arguments of a call can mean to the service that reads them: the value as written, and every other that arrives as the same."""
