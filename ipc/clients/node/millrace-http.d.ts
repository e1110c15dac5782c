// Types of millrace-http.js, for TypeScript.

/** What a task is now; state is finished, error, cancelled or abnormal when it has ended. */
export interface Task<R = any> {
  id: string, state: string, attempt?: number, job?: string, node?: string, reason?: string, message?: string
  result?: R, params?: any, labels?: Record<string, string>, submitted_at?: string, ended_at?: string
}
export interface Line { stream: string, text?: string, at?: string, level?: string }
/** One of job, handler, argv and shell, and any other fields of a submission. */
export interface Submission { id?: string, job?: string, handler?: string, argv?: string[], shell?: string, params?: object, queue?: string, labels?: Record<string, string>, [field: string]: unknown }

export class Problem extends Error { status: number; type: string; next: string }
export class Failed extends Error { task: Task }
export const OPERATIONS: Record<string, [method: string, path: string]>
export function newId (): string

export class Client {
  constructor (url?: string, options?: { token?: string, patience?: number })
  submit (task: Submission): Promise<string>
  get<R = any> (id: string): Promise<Task<R>>
  wait<R = any> (id: string, timeout?: number): Promise<Task<R>>
  result<R = any> (id: string, timeout?: number): Promise<R>
  list (query?: string, limit?: number): AsyncGenerator<Task>
  cancel (id: string, reason?: string): Promise<Task>
  retry (id: string, reason?: string): Promise<Task>
  signal (id: string, data?: unknown, reason?: string, name?: string): Promise<Task>
  output (id: string): AsyncGenerator<Line>
  records<T = any> (id: string): AsyncGenerator<T>
}
