"""Rules for descriptions that are poor or unsafe for agents: small functions over the build and the written description."""
