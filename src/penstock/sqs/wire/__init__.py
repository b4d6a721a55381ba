"""The two protocols: how requests are read and answers written."""
