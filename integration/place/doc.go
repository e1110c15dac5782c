// Package place is where a test of the millrace binary happens: its folders, the environment of its
// processes, the processes themselves, and what the log says of it all.
package place
