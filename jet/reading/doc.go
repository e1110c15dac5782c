// Package reading makes records of the messages of the log, however they were delivered, and reads
// those of a subject, of a page or since a time. It writes nothing.
package reading
