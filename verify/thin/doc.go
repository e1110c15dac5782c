// Package thin stores the state of millions of tasks in little memory: texts as numbers of words,
// times as stamps, and values that are only compared as digests.
package thin
