// Package value has the types of fields in jobs and facts: durations, sizes and names, each with
// the text that people write, and errors that begin with their field. It knows nothing of tasks.
package value
