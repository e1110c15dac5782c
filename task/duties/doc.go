// Package duties says who must act next on a task, by when, and what happens otherwise.
//
// It says as well whether a node starts a task that it was offered, or leaves it to others: to nodes that
// can run it, to nodes that it prefers, or to nodes that have a place for it.
package duties
