"""GraphQL connector: schema reading, selections, the document guard, execution and subscriptions."""
