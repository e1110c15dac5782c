// Package limits checks a log against the limits of tasks and nodes: no more epochs run at once
// than they allow (I-4), and the admitted tasks were first in line by all that was known (I-11).
package limits
