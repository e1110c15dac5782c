// Package verb makes the commands that are part of the service's entries: package answers declares how a
// verb is typed, and this package does what all such commands share. They find what their arguments
// name, ask the user, act within a time, go on after a failure and print. What they do is what the
// service does, with the user's own rights.
package verb
