// Package choice says whether a node starts a task that it was offered, or leaves it to others: to nodes that
// can run it, to nodes that it prefers, or to nodes that have a place for it.
package choice
