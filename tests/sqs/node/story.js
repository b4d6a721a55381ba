// The whole story with the AWS SDK for JavaScript: every action, both kinds of queues.
const assert = require("node:assert/strict");
const sdk = require("@aws-sdk/client-sqs");

const client = new sdk.SQSClient({
  endpoint: process.env.SQS_URL,
  region: "us-east-1",
  maxAttempts: 1,
  credentials: { accessKeyId: process.env.SQS_KEY, secretAccessKey: process.env.SQS_SECRET },
});
const call = (action, input) => client.send(new sdk[`${action}Command`](input));

async function standard() {
  const { QueueUrl } = await call("CreateQueue", { QueueName: "js", tags: { a: "b" } });
  assert.equal((await call("GetQueueUrl", { QueueName: "js" })).QueueUrl, QueueUrl);
  assert.ok((await call("ListQueues", {})).QueueUrls.includes(QueueUrl));
  await call("SetQueueAttributes", { QueueUrl, Attributes: { VisibilityTimeout: "60" } });
  const { Attributes } = await call("GetQueueAttributes", { QueueUrl, AttributeNames: ["All"] });
  assert.equal(Attributes.VisibilityTimeout, "60");
  await call("TagQueue", { QueueUrl, Tags: { c: "d" } });
  await call("UntagQueue", { QueueUrl, TagKeys: ["a"] });
  assert.deepEqual((await call("ListQueueTags", { QueueUrl })).Tags, { c: "d" });
  await call("AddPermission", { QueueUrl, Label: "l", AWSAccountIds: ["111111111111"], Actions: ["SendMessage"] });
  await call("RemovePermission", { QueueUrl, Label: "l" });

  const body = "grüße\r\n<&> 😀";
  await call("SendMessage", {
    QueueUrl,
    MessageBody: body,
    MessageAttributes: { raw: { DataType: "Binary", BinaryValue: new Uint8Array([0, 255]) } },
  });
  const { Messages } = await call("ReceiveMessage", { QueueUrl, MessageAttributeNames: ["All"] });
  assert.equal(Messages[0].Body, body);
  assert.deepEqual([...Messages[0].MessageAttributes.raw.BinaryValue], [0, 255]);
  const { ReceiptHandle } = Messages[0];
  await call("ChangeMessageVisibility", { QueueUrl, ReceiptHandle, VisibilityTimeout: 90 });
  await call("DeleteMessage", { QueueUrl, ReceiptHandle });

  const Entries = [0, 1, 2].map((n) => ({ Id: `${n}`, MessageBody: `${n}` }));
  assert.equal((await call("SendMessageBatch", { QueueUrl, Entries })).Successful.length, 3);
  const many = (await call("ReceiveMessage", { QueueUrl, MaxNumberOfMessages: 10 })).Messages;
  const handles = many.map((m, n) => ({ Id: `${n}`, ReceiptHandle: m.ReceiptHandle }));
  await call("ChangeMessageVisibilityBatch", {
    QueueUrl,
    Entries: handles.map((h) => ({ ...h, VisibilityTimeout: 30 })),
  });
  assert.equal((await call("DeleteMessageBatch", { QueueUrl, Entries: handles })).Successful.length, 3);
  await call("PurgeQueue", { QueueUrl });
  await call("DeleteQueue", { QueueUrl });
  await assert.rejects(call("GetQueueUrl", { QueueName: "js" }), (error) => {
    assert.ok(error instanceof sdk.QueueDoesNotExist);
    assert.equal(error.Code ?? error.Error?.Code, "AWS.SimpleQueueService.NonExistentQueue");
    return true;
  });
}

async function fifo() {
  const dead = await call("CreateQueue", { QueueName: "js-dead.fifo", Attributes: { FifoQueue: "true" } });
  const { Attributes } = await call("GetQueueAttributes", { QueueUrl: dead.QueueUrl, AttributeNames: ["QueueArn"] });
  const SourceArn = Attributes.QueueArn;
  const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: SourceArn, maxReceiveCount: 1 });
  const { QueueUrl } = await call("CreateQueue", {
    QueueName: "js.fifo",
    Attributes: { FifoQueue: "true", ContentBasedDeduplication: "true", RedrivePolicy },
  });
  const sources = await call("ListDeadLetterSourceQueues", { QueueUrl: dead.QueueUrl });
  assert.deepEqual(sources.queueUrls, [QueueUrl]);
  const first = await call("SendMessage", { QueueUrl, MessageBody: "x", MessageGroupId: "g" });
  const again = await call("SendMessage", { QueueUrl, MessageBody: "x", MessageGroupId: "g" });
  assert.equal(first.MessageId, again.MessageId);
  await call("ReceiveMessage", { QueueUrl, VisibilityTimeout: 0 });
  assert.equal((await call("ReceiveMessage", { QueueUrl })).Messages, undefined);
  const { TaskHandle } = await call("StartMessageMoveTask", { SourceArn });
  assert.ok(TaskHandle);
  const back = await call("ReceiveMessage", { QueueUrl, WaitTimeSeconds: 20 });
  assert.equal(back.Messages[0].Body, "x");
  assert.equal((await call("ListMessageMoveTasks", { SourceArn })).Results.length, 1);
  await assert.rejects(call("CancelMessageMoveTask", { TaskHandle: "bm9uc2Vuc2U=" }));
}

standard().then(fifo).then(() => console.log("done"));
