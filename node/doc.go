// Package node holds the rules of nodes as pure functions: the states of a
// worker process, which command is allowed in which state ([Decide]), how
// facts add up to a state ([Evolve]), when a node comes and goes too often
// ([Flap]) and who must act next on it ([Owes]). Like package task it reads no
// clock and does no I/O.
//
// Only the fold of a node's facts says what its state is. Heartbeats are not
// facts; what follows from their presence or absence is.
package node
