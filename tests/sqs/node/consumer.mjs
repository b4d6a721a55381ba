// A real job with sqs-consumer: messages are handled, deleted, and a failed one comes again.
import { Consumer } from "sqs-consumer";
import { SQSClient } from "@aws-sdk/client-sqs";

const sqs = new SQSClient({
  endpoint: process.env.SQS_URL,
  region: "us-east-1",
  credentials: { accessKeyId: process.env.SQS_KEY, secretAccessKey: process.env.SQS_SECRET },
});
const seen = [];
const consumer = Consumer.create({
  queueUrl: process.env.QUEUE_URL,
  sqs,
  batchSize: 10,
  waitTimeSeconds: 5,
  terminateVisibilityTimeout: true,
  handleMessage: async (message) => {
    seen.push(message.Body);
    if (message.Body === "twice" && seen.filter((each) => each === "twice").length === 1) {
      throw new Error("not yet");
    }
    return message;
  },
});
consumer.on("processing_error", () => {});
consumer.on("error", (error) => { console.error(error.message); process.exit(1); });
consumer.on("message_processed", () => {
  if (seen.length === 4) consumer.stop();
});
consumer.on("stopped", () => { console.log(seen.sort().join(",")); process.exit(0); });
consumer.start();
