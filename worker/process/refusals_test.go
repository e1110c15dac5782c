package process

import (
	"strings"
	"testing"

	"millrace/ipc"
	"millrace/task/value"
	"millrace/worker/process/child"
)

// TestLongFailure: the end of an attempt repeats the beginning of the program's message, and its
// class counts however long the message is.
func TestLongFailure(t *testing.T) {
	s := &session{sessionMemo: sessionMemo{Failure: &ipc.Failure{Message: strings.Repeat("é", 450_000), Class: value.User}}, out: nil}
	o := s.outcome(&child.Result{Class: value.Exit})
	if o.Class != value.User || len(o.Message) > maxFailure+4 || !strings.HasSuffix(o.Message, "é…") {
		t.Errorf("class %s, a message of %d bytes that ends in %q", o.Class, len(o.Message), o.Message[len(o.Message)-8:])
	}
}
