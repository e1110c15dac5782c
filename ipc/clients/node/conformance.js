'use strict'
// The program that every library writes for the conformance suite, ipc/clients/go/conformance_test.go.

const fs = require('fs')
const millrace = require('./millrace')

millrace.task('echo', params => params)
millrace.task('typed', ({ url, width = 100 }) => {
  if (typeof url !== 'string') throw new millrace.Failure('params: url is missing', { class: 'user', retryable: false })
  return { url, width }
})
millrace.task('plain', () => {
  console.log('out')
  console.error('err')
  process.stdout.write('half')
})
millrace.task('fail', () => { throw new Error('no luck') })
millrace.task('final', () => { throw new millrace.Failure('never', { class: 'user', retryable: false }) })
millrace.task('later', async () => { throw new millrace.Failure('busy', { class: 'network', retry_after: '30s' }) })
millrace.task('says', async (params, { id, attempt, checkpoint }) => {
  millrace.status('up')
  millrace.progress({ done: 1, total: 4 })
  millrace.send('INSERT_DATA', { n: 1 })
  millrace.log('slow', 'warn', { ms: 9 })
  millrace.send('CHECKPOINT', { next: (checkpoint?.next ?? 0) + 1 })
  return { id, attempt }
})
millrace.task('asks', async () => {
  const child = (await millrace.spawn({ key: 'a', argv: ['true'] })).task
  try {
    await millrace.spawn({ job: 'none' })
  } catch (err) {
    return { child, refused: err.message }
  }
})
millrace.task('waits', (params, { signal }) => new Promise(resolve => {
  millrace.status('waiting')
  signal.addEventListener('abort', () => resolve(`cancelled: ${signal.reason.message}`))
}))
millrace.task('large', () => 'x'.repeat(64 << 10))
millrace.task('reads', () => fs.readFileSync(0, 'utf8'))
millrace.task('steps', async () => {
  const id = await millrace.newId()
  const year = (await millrace.now()).getUTCFullYear()
  const paid = await millrace.step('charge', () => ({ paid: 7 }), { retry: 2 })
  await millrace.sleep('grace', 3600)
  const who = await millrace.waitFor('approval', 7200, { type: 'string', max: 40 })
  const child = await millrace.call('thumb', { handler: 'resize', params: { width: 1 } })
  return { id, year, paid, who, child, way: await millrace.version('tax', 2) }
})
millrace.task('missteps', async () => {
  const failed = []
  const unlucky = async () => { throw new millrace.Failure('no luck', { retry_after: '1s' }) }
  await millrace.step('charge', unlucky, { retry: { max: 3, min: '1s' } }).catch(err => failed.push(err.reason, err.tries))
  await millrace.waitFor('approval', undefined, [{ name: 'url', type: 'string' }, { name: 'width', type: 'integer', optional: true }]).catch(err => failed.push(err instanceof millrace.NoSignal && 'no signal'))
  for (const child of await millrace.callAll('both', [{ handler: 'a' }, { job: 'b' }])) {
    try {
      failed.push(child.result())
    } catch (err) {
      failed.push(err.reason)
    }
  }
  await millrace.sleep('', 1).catch(err => failed.push(err.message))
  return failed
})

millrace.run()
