'use strict'
// Submit tasks, wait for them and ask about them over HTTP: one file, no dependencies, Node 18 or later.
//
//   const client = new Client('http://127.0.0.1:4280', { token })
//   const id = await client.submit({ handler: 'resize', params: { url } })
//   console.log(await client.result(id))
//
// docs/http.md describes the routes; a test holds this file against the server's OpenAPI document.

const { randomBytes } = require('crypto')

// The operations of the document that this client uses.
const OPERATIONS = {
  submit: ['PUT', '/tasks/{id}'],
  get: ['GET', '/tasks/{id}'],
  wait: ['GET', '/tasks/{id}/wait'],
  list: ['GET', '/tasks'],
  cancel: ['POST', '/tasks/{id}/cancel'],
  retry: ['POST', '/tasks/{id}/retry'],
  signal: ['POST', '/tasks/{id}/signal'],
  output: ['GET', '/tasks/{id}/output'],
  records: ['GET', '/tasks/{id}/records']
}

/**
 * What a task is now. state is finished, error, cancelled or abnormal when it has ended.
 * @typedef {{id: string, state: string, attempt?: number, job?: string, node?: string, reason?: string,
 *   message?: string, result?: any, params?: any, labels?: Record<string, string>, submitted_at?: string,
 *   ended_at?: string}} Task
 * @typedef {{stream: string, text?: string, at?: string, level?: string}} Line
 */

/** The server refuses a request: status is that of HTTP, type the kind of problem. */
class Problem extends Error {
  constructor (status, body) {
    super(body.detail || body.title || `status ${status}`)
    Object.assign(this, { status, type: body.type ?? '', next: body.next ?? '' })
  }
}

/** A task has ended without success; task is that. */
class Failed extends Error {
  constructor (task) {
    super(`task ${task.id} is ${task.state}: ${task.message || task.reason}`)
    this.task = task
  }
}

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

/** A server of Millrace. Requests that find it busy, or not there, are repeated for patience seconds. */
class Client {
  constructor (url = 'http://127.0.0.1:4280', { token = '', patience = 30 } = {}) {
    Object.assign(this, { url: url.replace(/\/+$/, '') + '/api/v1', token, patience })
  }

  /**
   * Submit a task of a job, a handler or a command; more are fields of a submission. The task gets
   * its id here, so repeating a request makes no second one.
   * @returns {Promise<string>} the id
   */
  async submit ({ id = newId(), handler, argv, shell, ...more }) {
    const spec = handler ? { handler } : argv ? { run: { argv } } : shell ? { run: { shell } } : undefined
    return (await this.#call('submit', { id, body: spec ? { spec, ...more } : more })).id
  }

  /** @returns {Promise<Task>} the task as it is now */
  get (id) { return this.#call('get', { id }) }

  /** @returns {Promise<Task>} the task when it has ended; rejects after timeout seconds */
  async wait (id, timeout = Infinity) {
    for (const by = Date.now() + timeout * 1000; ;) {
      const { met, task } = await this.#call('wait', { id })
      if (met) return task
      if (Date.now() > by) throw new Error(`task ${id} is ${task.state} after ${timeout} s`)
    }
  }

  /** The result of a task when it has ended; rejects with Failed unless it is finished. */
  async result (id, timeout) {
    const task = await this.wait(id, timeout)
    if (task.state !== 'finished') throw new Failed(task)
    return task.result
  }

  /**
   * Tasks that a query chooses, such as "state:error since:2h", the newest first.
   * @returns {AsyncGenerator<Task>}
   */
  async * list (query = '', limit = Infinity) {
    for (let cursor = ''; limit > 0;) {
      const page = await this.#call('list', { query: { query, cursor, limit: Math.min(limit, 1000) } })
      yield * page.tasks ?? []
      limit -= page.tasks?.length ?? 0
      cursor = page.next
      if (!cursor) return
    }
  }

  /** @returns {Promise<Task>} */
  cancel (id, reason = '') { return this.#call('cancel', { id, body: { reason } }) }
  /** Give a task that has ended another life. @returns {Promise<Task>} */
  retry (id, reason = '') { return this.#call('retry', { id, body: { reason } }) }
  /** Give a task the signal that it waits for; rejects if it waits for one of another name. @returns {Promise<Task>} */
  signal (id, data = null, reason = '', name = '') { return this.#call('signal', { id, body: { data, reason, name } }) }

  /** The lines that a task has printed so far. @returns {AsyncGenerator<Line>} */
  async * output (id) { for await (const batch of this.#batches('output', id)) yield * batch.lines ?? [] }
  /** The records that a task has produced so far. */
  async * records (id) { for await (const batch of this.#batches('records', id)) yield * batch.items ?? [] }

  async * #batches (operation, id) {
    for (let after = 0; ;) {
      const page = await this.#call(operation, { id, query: { after, limit: 1000 } })
      for (const batch of page.batches ?? []) yield batch.of
      if (!page.next) return
      after = page.next
    }
  }

  async #call (operation, { id = '', query = {}, body } = {}) {
    const [method, path] = OPERATIONS[operation]
    const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value))
    const url = this.url + path.replace('{id}', encodeURIComponent(id)) + (given.size ? `?${given}` : '')
    const headers = { Accept: 'application/json', 'Content-Type': 'application/json' }
    if (this.token) headers.Authorization = `Bearer ${this.token}`
    for (let pause = 100, by = Date.now() + this.patience * 1000; ; pause = Math.min(2 * pause, 5000)) {
      let answer
      try {
        answer = await fetch(url, { method, headers, body: body && JSON.stringify(body) })
        if (answer.ok) return await answer.json()
      } catch (err) {
        if (Date.now() > by || method === 'POST') throw err // it may have been done
      }
      if (answer) {
        const problem = new Problem(answer.status, await answer.json().catch(() => ({})))
        if (![429, 503].includes(answer.status) || Date.now() > by) throw problem
        pause = 1000 * (Number(answer.headers.get('Retry-After')) || pause / 1000)
      }
      await sleep(pause)
    }
  }
}

/** A new id of a task: a ULID. */
function newId () {
  let n = BigInt(Date.now()) << 80n | BigInt('0x' + randomBytes(10).toString('hex'))
  let text = ''
  for (let i = 0; i < 26; i++, n >>= 5n) text = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'[Number(n & 31n)] + text
  return text
}

module.exports = { Client, Problem, Failed, OPERATIONS, newId }
