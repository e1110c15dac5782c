// Package value has what the fields of jobs and facts are made of: durations, sizes and names, each with the text that
// people write, and faults that begin with the field that they are about. It knows no task.
package value
