"""GraphQL documents that agents write, judged before anything of them is sent."""
