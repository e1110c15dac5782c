// Package faces holds tests of one promise: all that people and programs see agrees with the log:
// commands as scripts type them, pages, the service, metrics, and the full screen.
package faces
