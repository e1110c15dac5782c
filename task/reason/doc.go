// Package reason has the codes that say why a task is as it is: why an attempt failed, why a task ended
// or waits. The log, the command line and the API spell them so.
package reason
