"""Agent frameworks on a gateway in the same process: each adapter hands a framework the tools of one principal, and governs every call."""
