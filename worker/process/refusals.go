package process

import (
	"fmt"
	"sync/atomic"

	"millrace/ipc"
	"millrace/task/output"
)

// unfit is why an attempt cannot count as a success although its process ended with 0: part of its
// result would be missing, and no reader of it would notice.
type unfit struct {
	Records string `json:"records,omitempty"`
	Result  string `json:"result,omitempty"` // of the last one
}

// tooMuch refuses a message that carries more than it may. Its content is dropped; a line in the
// log takes its place.
func (s *session) tooMuch(m ipc.Message) ipc.Receipt {
	why := fmt.Sprintf("%s refused: %s", m.Type, m.Excess)
	s.mu.Lock()
	switch m.Type {
	case ipc.TypeInsertData:
		s.Unfit.Records = why
	case ipc.TypeResult:
		s.Unfit.Result, s.Result = why, nil
	}
	s.mu.Unlock()
	return s.refused(m.Type, m.Excess)
}

// refused records that a message was refused, and returns the answer.
func (s *session) refused(what, why string) ipc.Receipt {
	s.out.Line(output.System, what+" refused: "+why)
	s.count()
	return ipc.Receipt{Error: why}
}

func (s *session) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Refusals++
}

// maxFailure bounds how much of an ERROR the end of an attempt repeats, in bytes; the log has all
// of it.
const maxFailure = 4 << 10

// replacing tells once that the output of a process is not what its encoding says.
type replacing struct {
	encoding string
	said     atomic.Bool
}

// first tells whether it is the first call.
func (r *replacing) first() bool { return !r.said.Swap(true) }

// words say what was replaced, and what to do.
func (r *replacing) words() string {
	if r.encoding != "" {
		return "some of the output is not " + r.encoding + ", its run.encoding, and became U+FFFD"
	}
	return "some of the output is not UTF-8: each such byte, and each zero byte, became U+FFFD; run: {encoding: NAME} says which encoding it is, such as gbk, latin1 or utf-16"
}
