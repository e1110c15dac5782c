// Package harness is the harness for tests of the millrace binary: a test's folders, the environment
// of its processes, the processes themselves, and checks of the log that they leave.
package harness
