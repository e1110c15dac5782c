package process

import (
	"cmp"
	"crypto/rand"
	"fmt"

	"millrace/ipc"
	"millrace/task/job"
	"millrace/task/output"
)

// gate returns what the messages of a new attempt must have to count. Its key is a fresh random
// word, which only the process learns; there is none if no message counts.
func (t *Tasks) gate(run *job.Run) ipc.Gate {
	g := ipc.Gate{Keyless: ipc.Keyless(run.Strictness(t.Messages))} // a place in a short list
	if g.Keyless != ipc.KeylessOff {
		g.Key = rand.Text()
	}
	return g
}

// Withheld implements [child.Sink].
func (s *session) Withheld(typ string) {
	if run := s.attempt.Task.Spec.Run; run == nil || run.Messages != job.MessagesOff {
		s.out.Line(output.System, withheld(typ, s.tasks.Messages))
	}
}

// withheld says why a message of a type is only text, and how it can count. worker is the strictest
// rule that a job cannot lift.
func withheld(typ, worker string) string {
	only := fmt.Sprintf("a line of the output looks like a message (%s) and is only text: ", typ)
	worker = cmp.Or(worker, job.MessagesOpen)
	if worker == job.MessagesOff {
		return only + "this worker obeys no messages (--messages off)"
	}
	only += "it has no key; the libraries and millrace ipc add $" + ipc.KeyVar
	rule := job.MessageRules[ipc.Most(typ)]
	if (&job.Run{Messages: rule}).Strictness(worker) > int(ipc.Most(typ)) {
		return only + fmt.Sprintf("; this worker demands it (--messages %s)", worker)
	}
	return only + fmt.Sprintf(", and with run: {messages: %s} a job does without it", rule)
}
