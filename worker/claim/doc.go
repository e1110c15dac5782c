// Package claim is what a worker says to the log about one offer, without any goroutine: whether its task may
// start here now, asked of each rule in turn, and how the attempt ended ([Protocol]).
package claim
