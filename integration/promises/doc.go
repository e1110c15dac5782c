// Package promises has tests of Millrace's promises. They drive the millrace binary as its users do:
// they type its commands, and kill, stop and starve its processes on the way.
//
// What a command prints stands in the scripts below testdata; what survives the death of a process
// is in the Go files. Package harness gives a test its own folders, ports and processes. It waits
// for an expected state instead of sleeping, and fails a test that leaves a process or a temporary
// folder behind.
//
// The flag -long makes the tests that kill processes do so more often.
package promises
