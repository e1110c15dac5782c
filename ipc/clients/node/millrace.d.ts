// Types of millrace.js, for TypeScript.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json | undefined }
/** A number of seconds, or a text such as "24h". */
export type Span = number | string
export interface About { signal: AbortSignal, id: string, attempt: number, checkpoint: any }
export interface More { class?: string, retryable?: boolean, retry_after?: Span, fatal?: boolean }
/** retry of a job. */
export interface Retry { max?: number, backoff?: 'exponential' | 'linear' | 'fixed', min?: string, max_delay?: string, jitter?: number, on?: string[], not_on?: string[], budget?: string }
/** A submission: one of job, handler, argv, shell and spec, and any of its other fields. */
export interface Submission { key?: string, job?: string, handler?: string, argv?: string[], shell?: string, spec?: object, params?: object, queue?: string, labels?: Record<string, string>, retries?: number, [field: string]: unknown }
/** A parameter as jobs declare it; one without a name is the only question, whose answer is a value. */
export interface Question { name?: string, title?: string, description?: string, type?: 'string' | 'integer' | 'number' | 'boolean' | 'array' | 'object', enum?: Json[], min?: number, max?: number, pattern?: string, schema?: object, default?: Json, optional?: boolean }
export interface Child<R = any> { task: string, state: string, reason?: string, result (): R }
export interface Init { task: string, attempt: number, epoch: number, job?: string, node: string, queue: string, time: string, deadline?: string, params?: any, labels?: Record<string, string>, parent?: string, inputs?: any, checkpoint?: any, handler?: string }
export interface Ack { ok: boolean, error?: string, task?: string, until?: string }
export interface Cancel { reason: string, deadline: string }

export class Failure extends Error { constructor (message: string, more?: More); more: More }
/** A step waits: let it pass. */
export class Suspended extends Error {}
export class StepFailed extends Error { step: string; reason: string; tries: number; child?: Child }
export class NoSignal extends StepFailed {}

export function task<P = any, R = any> (name: string, handler: (params: P, about: About) => R | Promise<R>): typeof handler
export function run (): void

export function step<R> (name: string, f: () => R | Promise<R>, options?: { retry?: number | Retry }): Promise<R>
export function sleep (name: string, time: Span): Promise<void>
export function waitFor<D = any> (name: string, timeout?: Span, form?: Question | Question[]): Promise<D>
export function call<R = any> (name: string, task: Submission): Promise<R>
export function callAll<R = any> (name: string, tasks: Submission[]): Promise<Child<R>[]>
export function now (): Promise<Date>
export function newId (): Promise<string>
export function version (name: string, number: number): Promise<number>

export function send (type: string, payload?: unknown): void
export function ask (type: string, payload?: unknown): Promise<Ack>
export function unknown (): number
export function inside (): boolean
export function id (): string | undefined
export function attempt (): number
export function params (): any
export function lastCheckpoint<T = any> (otherwise?: T): T
export function init (): Promise<Init | null>
export function status (message: string, progress?: number): void
export function progress (share: number | { done: number, total: number, message?: string }): void
export function metric (values: Record<string, number>): void
export function log (message: string, level?: 'debug' | 'info' | 'warn' | 'error', fields?: object): void
export function data (records: object | object[]): Promise<Ack>
export function error (message: string, more?: More): void
export function result (value: unknown): void
export function heartbeat (): void
export function extend (by: Span): Promise<Ack>
export function checkpoint (value: unknown): Promise<Ack>
export function spawn (task: Submission): Promise<Ack>
export function ready (): void
export function cancelled (): Cancel | null
export function onCancel (f: (cancel: Cancel) => void): void
