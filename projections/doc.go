// Package projections keeps the read model: one [Projector] folds the log into
// SQLite, and a [Store] answers lists, filters, counts and pages from there.
//
// The read model decides nothing. Its rows are the folds of package task and
// package node, stored; every answer names the sequence of the log that it
// reflects, and whoever acts on one reads the truth from the log first. The file
// can be deleted at any time: it is made again from the log.
package projections
