// How a peer speaks with the benchmark: lines of JSON on standard input and output.

import readline from 'node:readline'
import { setTimeout } from 'node:timers/promises'

/** Publishes each line's documents and answers when they are committed; ends with its input. */
export async function publishing(publish) {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    await publish(JSON.parse(line))
    process.stdout.write('done\n')
  }
}

/** Does a job: waits for as long as it takes, then tells its number. */
export function doer(milliseconds) {
  const tell = teller()
  if (!milliseconds) return async (number) => tell(number)
  return async (number) => {
    await setTimeout(milliseconds)
    tell(number)
  }
}

/** Tells numbers, gathered for as long as the event loop is busy. */
function teller() {
  let numbers = []
  const tell = () => {
    process.stdout.write(`${numbers.join(' ')}\n`)
    numbers = []
  }
  return (number) => {
    if (numbers.push(number) === 1) setImmediate(tell)
  }
}

/** Says that we are ready; resolves when the benchmark has written a line. */
export function begun() {
  process.stdout.write('ready\n')
  return new Promise((resolve) => process.stdin.once('data', resolve))
}

/** Resolves when the benchmark has closed our input. */
export function released() {
  return new Promise((resolve) => process.stdin.on('end', resolve).resume())
}
