// Package deaths holds tests of a promise: what dies or is lost takes nothing with it: processes
// that are killed, servers that restart, streams that are deleted, disks that are full.
package deaths
