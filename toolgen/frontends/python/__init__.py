"""Gateway in a Python program: `toolgen.Gateway`, asynchronous and synchronous, with a project or without one."""
