// Package metrics turns what happens into figures: it lists every family of
// figures that Millrace gives ([Families]) and counts records of the log
// ([Fold]), heartbeats ([Beats]), looks of the scheduler ([Loops]) and how far
// somebody is behind ([Lag]).
//
// It does no I/O, reads no clock and knows nothing of how figures are served:
// whoever does takes them as a [Source].
//
// The number of series is bounded. Labels hold states, classes of reasons and
// kinds; names of queues and nodes only up to a cap, behind which all others
// share the name "other"; never ids of tasks.
package metrics
