// Package findings has the promises I-1 to I-11, and the book of results that is kept while a log is
// read: what was checked, what is broken, and what could not be judged. A [Report] is its sum. The
// checks of single tasks are in package verify.
//
// It remembers recent states of nodes, queues and other subjects with few facts, one
// state per fact: a decider knew them as they were a moment earlier. Older states are forgotten.
//
// It stores the state of millions of tasks in little memory: texts as numbers of words,
// times as stamps, and values that are only compared as digests.
//
// It checks a log against the limits of tasks and nodes: no more epochs run at once
// than they allow (I-4), and the admitted tasks were first in line by all that was known (I-11).
//
// It checks a log against the promises about schedules: a tick gets at most one decision
// and one task (I-6), and repeating each decision on a tick gives the same result (I-11).
package findings
