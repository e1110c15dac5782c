// Package node holds the rules of nodes as pure functions: the states of a worker process, which
// commands each state allows ([Decide]), how facts add up to a state ([Evolve]), when a node comes
// and goes too often ([Flap]) and which component must act on it next ([Owes]). Like package task
// it reads no clock and does no I/O.
//
// The fold of a node's facts alone gives its state. Heartbeats are not facts; their consequences
// are.
package node
