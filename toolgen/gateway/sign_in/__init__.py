"""Authorization server of the gateway, in front of the company's identity provider: clients, codes, tokens and signing keys."""
