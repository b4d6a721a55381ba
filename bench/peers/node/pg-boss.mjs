// node pg-boss.mjs install|publish|work HOST USER DATABASE QUEUE [CONCURRENCY MILLISECONDS]

import { setTimeout } from 'node:timers/promises'

import PgBoss from 'pg-boss'

import { begun, doer, publishing, released } from './talk.mjs'

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
  const workers = Math.ceil(Number(concurrency) / 5)
  const atATime = Math.ceil(Number(concurrency) / workers)
  const work = (jobs) => {
    const left = jobs.values()
    const oneAfterAnother = async () => {
      for (const { data } of left) await job(data.n)
    }
    return Promise.all(Array.from({ length: atATime }, oneAfterAnother))
  }
  await begun()
  const options = { batchSize: 1000, pollingIntervalSeconds: 0.5 }
  for (let worker = 0; worker < workers; worker++) await boss.work(queue, options, work)
  await released()
}

// With several workers it may wait for ever.
await Promise.race([boss.stop({ graceful: true, wait: true, timeout: 5000 }), setTimeout(6000)])
process.exit()
