"""The two protocols of SQS: how requests are read and answers written."""
