// Package metrics turns events into figures: it lists every family of figures that Millrace has
// ([Families]) and counts records of the log ([Fold]), heartbeats ([Beats]), rounds of the
// scheduler ([Loops]) and the lag of a read model ([Lag]).
//
// It does no I/O, reads no clock and does not serve the figures: a server takes them as a [Source].
//
// The number of series is bounded. Labels hold states, classes of reasons and kinds; names of
// queues and nodes only up to a cap, beyond which all others share the name "other"; never ids of
// tasks.
//
// A [Series] counts for the plots of the overview what has happened lately. It reads no clock:
// times are those of the log, or arguments.
package metrics
