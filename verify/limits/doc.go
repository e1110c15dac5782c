// Package limits holds what a log says against the limits of tasks and nodes: no more epochs run at once than these allow (I-4), and
// who was admitted is who stood first in line by all that was known (I-11).
package limits
