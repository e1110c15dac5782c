// Package claim holds what a worker decides and records about one offer, without any goroutine:
// whether its task may start here now, asked of each rule in turn, and how the attempt ended
// ([Protocol]).
package claim
