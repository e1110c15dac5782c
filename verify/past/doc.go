// Package past remembers recent states of nodes, queues and other subjects with few facts, one
// state per fact: a decider knew them as they were a moment earlier. Older states are forgotten.
package past
