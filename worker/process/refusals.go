package process

import (
	"fmt"

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
