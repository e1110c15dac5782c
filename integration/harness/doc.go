// Package harness is what tests with a server share: a server and a log of a test's own, and for those
// of the millrace binary a test's folders, the environment of its processes, the processes themselves,
// and checks of the log that they leave.
package harness
