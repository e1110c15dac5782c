'use strict'
// Speak to Millrace from a task: one file, no dependencies, Node 16 or later.
//
//   const millrace = require('./millrace')
//   millrace.data({ url })
//   millrace.progress({ done: 3, total: 10 })
//   millrace.result({ pages: 10 })
//
// Every function writes one line to the standard output. Those that return a promise
// send an id and wait for Millrace's answer if the job has `run: {stdin: open}`; without that
// they resolve at once. A value that is too long for Millrace throws a RangeError, or rejects the
// promise. docs/ipc.md describes the protocol.
//
// A resident program (millrace worker --program 'node app.js') runs one task after the other:
//
//   millrace.task('resize', async ({ url, width }, { signal }) => ({ width }))
//   millrace.run()
//
// A handler that keeps the event loop busy hears no CANCEL and answers no PING meanwhile.

const fs = require('fs')
const net = require('net')
const { AsyncLocalStorage } = require('async_hooks')
const { EventEmitter } = require('events')

const VERSION = 1
const MAX_VALUE = 64 << 10 // bytes of a result or a checkpoint as JSON
const MAX_LINE = 1 << 20 // bytes of a message
const BATCH = 512 << 10 // about how many bytes of records data() puts into one
const events = new EventEmitter()
const waiting = new Map()
let count = 0
let reading = false
let cancel = null
let started = null
let input = null // where Millrace's messages come from; the standard input by default
let resident = false
const current = new AsyncLocalStorage() // the INIT of the task to which an asynchronous call belongs
const tasks = new Map()
const strange = { unknown: 0 } // messages of a type that this version does not know

const open = () => process.env.MILLRACE_STDIN === 'open'

// write writes a line as a whole, also just before process.exit().
function write (line) {
  const bytes = Buffer.from(line + '\n')
  for (let at = 0; at < bytes.length;) {
    try {
      at += fs.writeSync(1, bytes, at)
    } catch (err) {
      if (err.code !== 'EAGAIN') throw err
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5) // the pipe is full
    }
  }
}

function line (type, payload, id) {
  const key = current.getStore()?.key ?? process.env.MILLRACE_KEY
  const message = { v: VERSION, type, key: key || undefined }
  if (id !== undefined) message.id = id
  if (payload !== undefined) {
    message.payload = payload
    if (type === 'RESULT' || type === 'CHECKPOINT') within(`a ${type}`, payload, MAX_VALUE)
  }
  write(within('a message', message, MAX_LINE))
}

// within returns a value as JSON; it throws if that is too long for Millrace.
function within (what, value, most) {
  const text = JSON.stringify(value)
  const size = Buffer.byteLength(text ?? '')
  if (size > most) throw new RangeError(`${what} has at most ${most} bytes, this one has ${size}`)
  return text
}

// batches divides a list of records into as many messages as they need.
function * batches (records) {
  let some = []
  let size = 0
  for (const record of records) {
    const n = Buffer.byteLength(JSON.stringify(record)) + 1
    if (some.length > 0 && size + n > BATCH) {
      yield some
      some = []
      size = 0
    }
    some.push(record)
    size += n
  }
  if (some.length > 0) yield some
}

async function data (records) {
  if (!Array.isArray(records)) return ask('INSERT_DATA', records)
  const answers = [...batches(records)].map(some => ask('INSERT_DATA', some))
  return (await Promise.all(answers)).at(-1) ?? { ok: true }
}

/** Send a message of any type that needs no answer. */
function send (type, payload) { line(type, payload) }

/** Send a message and return a promise of the payload of its ACK. */
function ask (type, payload) {
  if (!open()) {
    line(type, payload)
    return Promise.resolve({ ok: true })
  }
  listen()
  const id = `js-${process.pid}-${++count}`
  return new Promise((resolve, reject) => {
    line(type, payload, id)
    waiting.set(id, { resolve, reject })
    hold()
  })
}

// hold keeps the process alive only while a caller waits for an answer.
function hold () {
  if (waiting.size > 0 || resident) input.ref?.()
  else input.unref?.()
}

function listen () {
  if (reading || !open()) return
  reading = true
  let rest = ''
  input ??= process.stdin
  input.setEncoding('utf8')
  input.on('data', chunk => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop()
    for (const text of lines) take(text)
  })
  input.on('end', () => {
    if (resident) process.exit()
    for (const { reject } of waiting.values()) reject(new Error('the input has ended without an answer'))
    waiting.clear()
  })
  hold()
}

function take (text) {
  let message
  try { message = JSON.parse(text) } catch { return }
  const payload = message.payload || {}
  switch (message.type) {
    case 'INIT':
      started = payload
      events.emit('init', payload)
      if (resident) current.run(payload, () => perform(payload))
      break
    case 'PING':
      send('HEARTBEAT')
      break
    case 'BYE':
      process.exit()
      break
    case 'CANCEL':
      cancel = payload
      events.emit('cancel', payload)
      break
    case 'ACK': {
      const waiter = waiting.get(payload.id)
      waiting.delete(payload.id)
      hold()
      if (!waiter) return
      if (payload.ok) waiter.resolve(payload)
      else waiter.reject(new Error(payload.error || 'refused'))
      break
    }
    default:
      strange.unknown++
  }
}

/** Throw it in a handler to say more of a failure: { class, retryable, retry_after }. */
class Failure extends Error {
  constructor (message, more = {}) {
    super(message)
    this.more = more
  }
}

/** A step waits. Let it pass: the task goes on behind the step, in another attempt. */
class Suspended extends Error {}

/** A step has failed for good, after so many tries, or the child of a call has not finished. */
class StepFailed extends Error {
  constructor (step, reason, { tries = 0, child } = {}) {
    super(`step ${step}: ${reason}`)
    Object.assign(this, { step, reason, tries, child })
  }
}

/** The signal that waitFor waits for did not come in time. */
class NoSignal extends StepFailed {}

// What each step gives is remembered. The handler runs from its beginning in each attempt, comes to the same
// steps in the same order, is given what is remembered, and so goes on behind its last step.

async function comes (kind, name, more) {
  return became(name, await ask('STEP', { kind, name, ...more }), kind === 'await' ? NoSignal : StepFailed)
}

function became (name, { step: is }, Failed = StepFailed) {
  if (!is) throw new Error('steps are for handlers of a program that a worker keeps')
  if (is.suspended) throw new Suspended(`step ${name} waits`)
  if (is.failed) throw new Failed(name, is.failed, is)
  return is
}

/**
 * Do a part of the task once: what f gives, or resolves to, is remembered as JSON. retry is how often it is
 * tried again by itself, or an object such as retry of a job. One that has failed for good rejects with StepFailed.
 */
async function step (name, f, { retry = 0 } = {}) {
  const is = await comes('step', name, { retry: typeof retry === 'number' ? { max: retry } : retry })
  if (is.known) return is.value
  let gave
  try {
    gave = await f()
  } catch (err) {
    became(name, await ask('STEPPED', { error: failure(err) })) // throws
  }
  const result = JSON.parse(within('a result', gave ?? null, MAX_VALUE)) // fails the task, for the step would only be done again
  became(name, await ask('STEPPED', { result }))
  return result
}

/** Have several children run at once; resolves to { task, state, reason, result() } for each when all have ended. */
async function callAll (name, tasks) {
  const { value } = await comes('call', name, { of: tasks })
  return value.map(({ task, state, reason, result }) => {
    const child = { task, state, reason }
    child.result = () => {
      if (state === 'finished') return result
      throw new StepFailed(name, `task ${task} is ${state}${reason ? ': ' + reason : ''}`, { child })
    }
    return child
  })
}

// failure is the payload of an error.
function failure (err) {
  if (!(err instanceof Failure)) process.stderr.write(`${err?.stack ?? err}\n`)
  return { message: String(err?.message ?? err) || 'failed', ...(err instanceof RangeError ? { retryable: false } : {}), ...err?.more }
}

/**
 * Make a function the handler of tasks of a name, in a resident program. It gets the parameters and
 * { signal, id, attempt, checkpoint }; what it returns, or resolves to, is the result.
 * @template P, R
 * @param {string} name
 * @param {(params: P, task: {signal: AbortSignal, id: string, attempt: number, checkpoint: any}) => R | Promise<R>} handler
 */
function task (name, handler) {
  tasks.set(name, handler)
  return handler
}

/** Run tasks, one at a time, until the worker needs this program no more. */
function run () {
  if (!process.env.MILLRACE_RESIDENT) throw new Error('no worker keeps this program: start it with millrace worker --program')
  resident = true
  if (process.platform === 'linux') { // so that no program that a handler starts reads the messages
    const fd = fs.openSync('/proc/self/fd/0')
    fs.closeSync(0)
    fs.openSync('/dev/null') // becomes 0
    input = new net.Socket({ fd, readable: true, writable: false })
  }
  listen()
  send('HELLO', { protocol: VERSION, tasks: [...tasks.keys()], library: 'node' })
}

// perform runs a task and says how it has ended.
async function perform (init) {
  const ending = new AbortController()
  const abort = payload => ending.abort(new Error(payload.reason))
  cancel = null
  events.once('cancel', abort)
  let end
  try {
    const about = { signal: ending.signal, id: init.task, attempt: init.attempt, checkpoint: init.checkpoint }
    const result = await tasks.get(init.handler)(init.params ?? {}, about)
    within('a result', result, MAX_VALUE)
    end = { result }
  } catch (err) {
    end = err instanceof Suspended ? {} : { error: failure(err) }
  }
  events.removeAllListeners('cancel')
  write('\n' + JSON.stringify({ v: VERSION, type: 'DONE', key: init.key, payload: end }))
}

// The text of a variable; a file holds it if it is too long for a variable.
const variable = name => {
  const path = process.env[name + '_FILE']
  return process.env[name] || !path ? process.env[name] : require('node:fs').readFileSync(path, 'utf8')
}
const parsed = (name, otherwise) => {
  const text = variable(name)
  return text ? JSON.parse(text) : otherwise
}

module.exports = {
  send,
  ask,
  task,
  run,
  Failure,
  /** How many messages had a type that this version does not know. */
  unknown: () => strange.unknown,
  /** Whether this process is a task of Millrace. */
  inside: () => 'MILLRACE_IPC' in process.env,
  id: () => started?.task ?? process.env.MILLRACE_TASK,
  attempt: () => started?.attempt ?? Number(process.env.MILLRACE_ATTEMPT || 1),
  params: () => (resident ? started?.params : undefined) ?? parsed('MILLRACE_PARAMS', {}),
  /** The last checkpoint() of an earlier attempt. */
  lastCheckpoint: otherwise => resident ? started?.checkpoint ?? otherwise : parsed('MILLRACE_CHECKPOINT', otherwise),
  /** A promise of the payload of INIT; null without run.stdin: open. */
  init () {
    listen()
    if (started || !open()) return Promise.resolve(started)
    input.ref?.()
    return new Promise(resolve => events.once('init', payload => { hold(); resolve(payload) }))
  },

  status: (message, progress) => send('STATUS', progress === undefined ? message : { message, progress }),
  /** A share from 0 to 1, or { done, total, message }. */
  progress: share => send('PROGRESS', share),
  metric: values => send('METRIC', values),
  log: (message, level = 'info', fields) => send('LOG', { message, level, fields }),
  /** A record or a list of records; the promise resolves when they are stored. */
  data,
  /** more: { class, retryable, retry_after, fatal } */
  error: (message, more = {}) => send('ERROR', { message, ...more }),
  result: value => send('RESULT', value),
  heartbeat: () => send('HEARTBEAT'),
  /** "10m", or seconds; resolves to { until }. */
  extend: by => ask('EXTEND', { by }),
  checkpoint: value => ask('CHECKPOINT', value),
  /** { key, job | argv | shell, params, … }; resolves to { task }. */
  spawn: task => ask('SPAWN', task),
  ready: () => send('READY'),

  Suspended,
  StepFailed,
  NoSignal,
  step,
  /** Wait so long, once: seconds, or a text such as "24h". No slot is taken meanwhile. */
  sleep: async (name, time) => { await comes('sleep', name, { for: time }) },
  /**
   * Wait for a signal; resolves to the data that came with it, rejects with NoSignal after timeout. With a form other
   * answers are refused: a list of questions, each as a job declares a parameter, for an object; or one of them
   * without a name, for a value.
   */
  waitFor: async (name, timeout, form) => (await comes('await', name, { timeout, form: form && [].concat(form) })).value,
  /** Have a child run, as by spawn; resolves to its result. Rejects with StepFailed if it does not finish. */
  call: async (name, task) => (await callAll(name, [task]))[0].result(),
  callAll,
  /** The time at which the task first came here, a Date. */
  now: async () => new Date((await comes('now')).value),
  /** An id that is drawn once. */
  newId: async () => (await comes('id')).value,
  /** number for a task that comes here for the first time, 0 for one that passed before there was this. */
  version: async (name, number) => (await comes('version', name, { is: number })).value,

  /** The payload of CANCEL, or null. */
  cancelled () { listen(); return cancel },
  /** Call f when Millrace asks the task to end. */
  onCancel (f) { events.on('cancel', f); listen() }
}
