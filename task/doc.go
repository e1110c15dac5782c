// Package task holds the rules of tasks as pure functions: the states of a task; which commands
// each state allows and which fact each leaves ([Decide]); how facts add up to a state ([Evolve]);
// and which component must act next, and by when ([duties.Owes]).
//
// It reads no clock, starts no goroutine, draws no random number and imports no package that does
// I/O: time and chance are arguments. Every rule about tasks belongs here or in a package below.
package task
