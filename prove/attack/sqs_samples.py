"""Requests, forms, addresses and documents as clients of SQS send them; attacks begin here."""

from __future__ import annotations

import json
from typing import Any

QUEUE = "http://h/000000000000/q"
_ATTRIBUTE = {"DataType": "String", "StringValue": "blue"}
_ENTRY = {"Id": "a", "MessageBody": "x", "MessageAttributes": {"colour": _ATTRIBUTE}}

REQUESTS: dict[str, dict[str, Any]] = {
    "AddPermission": {
        "QueueUrl": QUEUE,
        "Label": "in",
        "AWSAccountIds": ["111111111111"],
        "Actions": ["SendMessage"],
    },
    "CancelMessageMoveTask": {"TaskHandle": "eyJ0YXNrSWQiOiAiMSJ9"},
    "ChangeMessageVisibility": {"QueueUrl": QUEUE, "ReceiptHandle": "r", "VisibilityTimeout": 5},
    "ChangeMessageVisibilityBatch": {
        "QueueUrl": QUEUE,
        "Entries": [{"Id": "a", "ReceiptHandle": "r", "VisibilityTimeout": 5}],
    },
    "CreateQueue": {
        "QueueName": "q",
        "Attributes": {
            "VisibilityTimeout": "30",
            "RedrivePolicy": json.dumps(
                {
                    "deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead",
                    "maxReceiveCount": "3",
                }
            ),
        },
        "tags": {"team": "a"},
    },
    "DeleteMessage": {"QueueUrl": QUEUE, "ReceiptHandle": "r"},
    "DeleteMessageBatch": {"QueueUrl": QUEUE, "Entries": [{"Id": "a", "ReceiptHandle": "r"}]},
    "DeleteQueue": {"QueueUrl": QUEUE},
    "GetQueueAttributes": {"QueueUrl": QUEUE, "AttributeNames": ["All"]},
    "GetQueueUrl": {"QueueName": "q", "QueueOwnerAWSAccountId": "000000000000"},
    "ListDeadLetterSourceQueues": {"QueueUrl": QUEUE, "MaxResults": 10},
    "ListMessageMoveTasks": {"SourceArn": "arn:aws:sqs:us-east-1:000000000000:q", "MaxResults": 1},
    "ListQueueTags": {"QueueUrl": QUEUE},
    "ListQueues": {"QueueNamePrefix": "q", "MaxResults": 10, "NextToken": "bQ=="},
    "PurgeQueue": {"QueueUrl": QUEUE},
    "ReceiveMessage": {
        "QueueUrl": QUEUE,
        "MaxNumberOfMessages": 10,
        "MessageSystemAttributeNames": ["All"],
        "MessageAttributeNames": ["colour", "c*"],
        "ReceiveRequestAttemptId": "1",
        "VisibilityTimeout": 0,
    },
    "RemovePermission": {"QueueUrl": QUEUE, "Label": "in"},
    "SendMessage": {
        "QueueUrl": QUEUE,
        "MessageBody": "x",
        "DelaySeconds": 1,
        "MessageAttributes": {"colour": _ATTRIBUTE, "n": {"DataType": "Number"}},
        "MessageSystemAttributes": {
            "AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}
        },
        "MessageGroupId": "g",
    },
    "SendMessageBatch": {"QueueUrl": QUEUE, "Entries": [_ENTRY, {**_ENTRY, "Id": "b"}]},
    "SetQueueAttributes": {
        "QueueUrl": QUEUE,
        "Attributes": {
            "DelaySeconds": "0",
            "Policy": '{"Statement": []}',
            "RedriveAllowPolicy": '{"redrivePermission": "allowAll"}',
        },
    },
    "StartMessageMoveTask": {
        "SourceArn": "arn:aws:sqs:us-east-1:000000000000:dead",
        "DestinationArn": "arn:aws:sqs:us-east-1:000000000000:q",
        "MaxNumberOfMessagesPerSecond": 5,
    },
    "TagQueue": {"QueueUrl": QUEUE, "Tags": {"a": "b"}},
    "UntagQueue": {"QueueUrl": QUEUE, "TagKeys": ["a"]},
}

FORMS = (
    (
        b"Action=SendMessage&QueueUrl=q&MessageBody=x%20y&MessageAttribute.1.Name=a"
        b"&MessageAttribute.1.Value.DataType=String&MessageAttribute.1.Value.StringValue=v"
    ),
    (
        b"Action=SendMessageBatch&QueueUrl=q&SendMessageBatchRequestEntry.1.Id=a"
        b"&SendMessageBatchRequestEntry.1.MessageBody=x&SendMessageBatchRequestEntry.2.Id=b"
        b"&SendMessageBatchRequestEntry.2.MessageAttribute.1.Name=c"
    ),
    (
        b"Action=CreateQueue&QueueName=q&Attribute.1.Name=DelaySeconds&Attribute.1.Value=3"
        b"&Tag.1.Key=a&Tag.1.Value=b&Tags.2.Key=c"
    ),
    (
        b"Action=ReceiveMessage&QueueUrl=q&MaxNumberOfMessages=10&AttributeName.1=All"
        b"&MessageAttributeName.member.1=a&WaitTimeSeconds=0"
    ),
    b"Action=AddPermission&QueueUrl=q&Label=l&AWSAccountId.1=111111111111&ActionName.1=SendMessage",
    (
        b"Action=DeleteMessageBatch&QueueUrl=q&DeleteMessageBatchRequestEntry.1.Id=a"
        b"&DeleteMessageBatchRequestEntry.1.ReceiptHandle=r"
    ),
    b"Action=ListQueues&MaxResults=5&QueueNamePrefix=a+b",
    b"Action=StartMessageMoveTask&SourceArn=arn%3Aaws%3Asqs%3Aus-east-1%3A000000000000%3Ad",
    b"Action=GetCallerIdentity&Version=2011-06-15",
)

URLS = (
    b"http://localhost:9324/000000000000/orders.fifo",
    b"http://h/queue/us-east-1/000000000000/orders",
    b"https://sqs.eu-west-1.example.com/111111111111/orders?x=1#y",
    b"https://eu-west-1.queue.amazonaws.com/111111111111/orders",
    b"/000000000000/orders",
    b"orders",
    b"arn:aws:sqs:us-east-1:000000000000:orders",
)

POLICIES = tuple(
    json.dumps({"Version": "2012-10-17", "Statement": statement}).encode()
    for statement in (
        [{"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": "*"}],
        {
            "Sid": "a",
            "Effect": "Deny",
            "Principal": {"AWS": ["111111111111", "arn:aws:iam::111111111111:user/eve"]},
            "Action": ["SQS:SendMessage", "sqs:Receive*"],
            "Resource": "arn:aws:sqs:*:*:ord?rs",
            "Condition": {"IpAddress": {"aws:SourceIp": ["10.0.0.0/8", "::1"]}},
        },
        [
            {
                "Effect": "Allow",
                "NotPrincipal": {"AWS": "222222222222"},
                "NotAction": "sqs:Delete*",
                "NotResource": ["x"],
                "Condition": {
                    "DateGreaterThan": {"aws:CurrentTime": "1767225600"},
                    "NumericLessThan": {"aws:x": "10"},
                    "StringNotLike": {"aws:username": "e*"},
                    "Null": {"aws:y": True},
                },
            }
        ],
        [{"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*a*b*c*d*e*f*g*h*i*j"}],
    )
)

KEY_FILES = (
    (
        b'[[key]]\naccess_key = "AKIAEXAMPLE"\nsecret = "s"\naccount = "000000000000"\n'
        b'role = "publisher"\nqueues = ["orders-*"]\nname = "pia"\n'
    ),
    b'[[key]]\naccess_key = "A"\nsealed = "v1.AAAA"\n\n[[key]]\naccess_key = "B"\nsecret = "t"\n',
)
