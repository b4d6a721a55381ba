// node pg-boss.mjs install|publish|work HOST USER DATABASE QUEUE [CONCURRENCY MILLISECONDS]

import { setTimeout } from 'node:timers/promises'

import PgBoss from 'pg-boss'

import { doer, publishing, released } from './talk.mjs'

const [role, host, user, database, queue, concurrency, milliseconds] = process.argv.slice(2)
const serving = role === 'work'
const boss = new PgBoss({ host, user, database, max: 10, supervise: serving, schedule: false })
boss.on('error', (error) => process.stderr.write(`${error.message}\n`))
await boss.start()

if (role === 'install') {
  await boss.createQueue(queue)
} else if (role === 'publish') {
  await publishing((documents) =>
    documents.length === 1
      ? boss.send(queue, documents[0])
      : boss.insert(documents.map((data) => ({ name: queue, data })))
  )
} else {
  // A worker rests for half a second, its shortest, between two batches that came quickly; so
  // several of them, and batches large enough that the rest is not what is measured.
  const job = doer(Number(milliseconds))
  const options = { batchSize: 1000, pollingIntervalSeconds: 0.5 }
  for (let worker = 0; worker < Math.max(1, Number(concurrency) / 5); worker++) {
    await boss.work(queue, options, (jobs) =>
      Promise.all(jobs.map(({ data }) => job(data.n)))
    )
  }
  await released()
}

// With several workers it may wait for ever.
await Promise.race([boss.stop({ graceful: true, wait: true, timeout: 5000 }), setTimeout(6000)])
process.exit()
