"""What makes a description poor or unsafe for agents, as a table of small rules over what was built and what was written."""
