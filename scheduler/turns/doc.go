// Package turns says which of several schedulers goes first with what, what the others have left to it, and whether
// a scheduler is fit for others to leave anything to it.
package turns
