// Package value has the types of fields in jobs and facts: durations, sizes and names, each with
// the text that people write, and errors that begin with their field. It knows nothing of tasks.
//
// [Word] finds the word that a mistyped one most likely stands for. It does not know the
// meaning of the words.
//
// A [Heap] has the first of its elements at hand.
//
// It has the codes for the state of a task: why an attempt failed, why a task ended or
// waits. The log, the command line and the API use these spellings.
package value
