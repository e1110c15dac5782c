'use strict'
// Handlers in Node: millrace worker --program 'node examples/digest.js', then
// millrace run --wait --handler digest -p text=hello
//
// NODE_PATH must have the folder of millrace.js (ipc/clients/node).

const { createHash } = require('crypto')
const { setTimeout: sleep } = require('timers/promises')
const millrace = require('millrace')

millrace.task('digest', ({ text, algorithm = 'sha256' }) => {
  if (typeof text !== 'string') throw new millrace.Failure('text is missing', { class: 'user', retryable: false })
  console.log(`${text.length} characters`)
  return { digest: createHash(algorithm).update(text).digest('hex') }
})

millrace.task('countdown', async ({ from }, { signal }) => {
  for (let n = 0; n < from; n++) {
    millrace.progress({ done: n, total: from })
    await sleep(1000, null, { signal }) // throws as soon as the task is cancelled
  }
  return 'liftoff'
})

millrace.run()
