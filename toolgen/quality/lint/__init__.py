"""Rules for descriptions that are poor or unsafe for agents, as a table of small rules over the build and the written description."""
