"""Storage of a gateway: state that outlives a call, and its backup."""
