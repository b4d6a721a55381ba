"""The SQS server beside other SQS servers, in one run: `python -m bench.sqs`."""
