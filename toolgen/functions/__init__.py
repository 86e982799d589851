"""Python functions as tools: the decorator and the schemas drawn from signatures."""
