// Package task holds the rules of tasks as pure functions: which states a task
// can be in, which command is allowed in which state and what fact it leaves
// behind ([Decide]), how facts add up to a state ([Evolve]), who must act next
// and by when ([Owes]).
//
// It reads no clock, starts no goroutine, draws no random number and imports
// nothing that does I/O; time and chance are arguments. A rule about tasks
// that is found anywhere else is in the wrong place.
package task
