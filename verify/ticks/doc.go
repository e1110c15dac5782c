// Package ticks holds what a log says of schedules against their promise: a tick gets one decision and one task at most (I-6), and
// each decision on a tick is made again by the function that made it (I-11).
package ticks
