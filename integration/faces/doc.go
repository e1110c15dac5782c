// Package faces holds tests of a promise: what people and programs see agrees with the log:
// commands as scripts type them, pages, the service, metrics, the full screen.
package faces
