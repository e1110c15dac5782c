// Package thin keeps what is known of millions of tasks in little memory: texts as the numbers of their words, times as stamps, and what
// is only compared as digests.
package thin
