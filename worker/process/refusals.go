package process

import (
	"fmt"
	"strings"

	"millrace/ipc"
	"millrace/task/output"
)

// unfit is why an attempt cannot count as a success though its process ended with 0: what it was
// for would be missing, and nobody would see that.
type unfit struct {
	Records string `json:"records,omitempty"`
	Result  string `json:"result,omitempty"` // of the last one
}

// tooMuch refuses a message that carries more than it may. Its content is gone: what stands in the
// log in its place says so.
func (s *session) tooMuch(m ipc.Message) ipc.Receipt {
	why := fmt.Sprintf("%s refused: %s", m.Type, m.Excess)
	s.mu.Lock()
	switch m.Type {
	case ipc.TypeInsertData:
		s.unfit.Records = why
	case ipc.TypeResult:
		s.unfit.Result, s.result = why, nil
	}
	s.mu.Unlock()
	return s.refused(m.Type, m.Excess)
}

// refused notes that a message was refused, and answers.
func (s *session) refused(what, why string) ipc.Receipt {
	s.out.Line(output.System, what+" refused: "+why)
	s.count()
	return ipc.Receipt{Error: why}
}

func (s *session) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusals++
}

// maxFailure bounds what the end of an attempt repeats of an ERROR, in bytes; the log has all of it.
const maxFailure = 4 << 10

// cut is text of at most so many bytes, and a sign that there was more.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
