// node graphile-worker.mjs install|publish|work HOST USER DATABASE QUEUE [CONCURRENCY MILLISECONDS]

import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import pg from 'pg'

import { begun, doer, publishing, released } from './talk.mjs'

const [role, host, user, database, queue, concurrency, milliseconds] = process.argv.slice(2)
const pgPool = new pg.Pool({ host, user, database, max: 10 })
// It wants both, or warns.
pgPool.on('error', (error) => process.stderr.write(`${error.message}\n`))
pgPool.on('connect', (client) => client.on('error', () => {}))
const logger = new Logger(() => () => {})

if (role === 'work') {
  const job = doer(Number(milliseconds))
  const concurrentJobs = Number(concurrency)
  await begun()
  const runner = await run({
    pgPool,
    logger,
    noHandleSignals: true,
    taskList: { [queue]: (payload) => job(payload.n) },
    preset: {
      worker: {
        concurrentJobs,
        pollInterval: 1000,
        localQueue: { size: 10 * concurrentJobs },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
  })
  await released()
  await runner.stop()
} else {
  const utils = await makeWorkerUtils({ pgPool, logger })
  if (role === 'install') await utils.migrate()
  else {
    await publishing((documents) =>
      documents.length === 1
        ? utils.addJob(queue, documents[0])
        : utils.addJobs(documents.map((payload) => ({ identifier: queue, payload })))
    )
  }
  await utils.release()
}

await pgPool.end()
