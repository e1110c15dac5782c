// Package reason has the codes for the state of a task: why an attempt failed, why a task ended or
// waits. The log, the command line and the API use these spellings.
package reason
