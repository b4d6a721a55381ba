-- Every error of the SQS door: the shape of the JSON protocol, the code of the query protocol, and the HTTP status.
create table if not exists pgqs.error_shapes (
    shape       text primary key,
    query_code  text not null,
    status      int not null
);
insert into pgqs.error_shapes (shape, query_code, status) values
    ('AccessDenied', 'AccessDenied', 403),
    ('BatchEntryIdsNotDistinct', 'AWS.SimpleQueueService.BatchEntryIdsNotDistinct', 400),
    ('BatchRequestTooLong', 'AWS.SimpleQueueService.BatchRequestTooLong', 400),
    ('EmptyBatchRequest', 'AWS.SimpleQueueService.EmptyBatchRequest', 400),
    ('InvalidAction', 'InvalidAction', 400),
    ('InvalidAddress', 'InvalidAddress', 404),
    ('InvalidAttributeName', 'InvalidAttributeName', 400),
    ('InvalidAttributeValue', 'InvalidAttributeValue', 400),
    ('InvalidBatchEntryId', 'AWS.SimpleQueueService.InvalidBatchEntryId', 400),
    ('InvalidIdFormat', 'InvalidIdFormat', 400),
    ('InvalidMessageContents', 'InvalidMessageContents', 400),
    ('InvalidParameterValueException', 'InvalidParameterValue', 400),
    ('MessageNotInflight', 'AWS.SimpleQueueService.MessageNotInflight', 400),
    ('MissingRequiredParameterException', 'MissingParameter', 400),
    ('OverLimit', 'OverLimit', 403),
    ('PurgeQueueInProgress', 'AWS.SimpleQueueService.PurgeQueueInProgress', 403),
    ('QueueDeletedRecently', 'AWS.SimpleQueueService.QueueDeletedRecently', 400),
    ('QueueDoesNotExist', 'AWS.SimpleQueueService.NonExistentQueue', 400),
    ('QueueNameExists', 'QueueAlreadyExists', 400),
    ('ReceiptHandleIsInvalid', 'ReceiptHandleIsInvalid', 400),
    ('ResourceNotFoundException', 'ResourceNotFoundException', 404),
    ('TooManyEntriesInBatchRequest', 'AWS.SimpleQueueService.TooManyEntriesInBatchRequest', 400),
    ('UnsupportedOperation', 'AWS.SimpleQueueService.UnsupportedOperation', 400)
on conflict (shape) do update set query_code = excluded.query_code, status = excluded.status;
