package child

import "millrace/ipc"

// Stream says where log text came from.
type Stream uint8

// The streams of a process.
const (
	Stdout Stream = iota + 1
	Stderr
)

// String is "stdout" or "stderr".
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	}
	return "unknown stream"
}

// Sink receives the output of a process. Calls for one stream come one after the other, in the
// order of writing; those for the two streams come from two goroutines concurrently. Messages come
// in order with the log text of Stdout. While a call blocks, that stream is not read, and the
// process waits as soon as it has filled the kernel's pipe (64 KiB): that is the back-pressure. A
// call that never returns keeps [Runner.Run] from returning, even after a kill.
type Sink interface {
	// Line takes log text, perhaps several lines. The text is valid only during the call.
	Line(s Stream, line ipc.Line)
	// Message takes a message; the receiver may keep it.
	Message(m ipc.Message)
	// Withheld is told the type of the first message that does not count because of
	// [Command.Messages], before its line comes as log text.
	Withheld(typ string)
}
