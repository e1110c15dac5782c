// Package nodes holds tests of a promise: a node that drains, is cut off or comes back gets the
// work that is meant for it, and no other.
package nodes
