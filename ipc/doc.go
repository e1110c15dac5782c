// Package ipc is the line protocol between Millrace and a child process.
//
// Each line that the process writes to its standard output is either a message, a JSON object
// {"type": …, "payload": …} of a known type, or log text. A program needs no library for it:
// printing is logging, and printing one JSON object reports progress, data, a result or an error.
// In the other direction Millrace writes messages of the same form to the standard input.
//
// No output of a process is an error here. A line that looks like a message but is not one (unknown
// type, broken JSON, a payload of the wrong form) is log text, so that it is shown rather than
// lost.
//
// The package turns bytes into values. It starts no process, opens no file, keeps no state between
// streams and does not decide about what messages ask for.
package ipc
