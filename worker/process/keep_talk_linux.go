package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"millrace/internal/files"
	"millrace/ipc"
	"millrace/task/output"
	"millrace/task/value"
	"millrace/worker"
	"millrace/worker/process/child"
)

// keepMemo is what must be remembered about the output up to a place.
type keepMemo struct {
	At      int64             `json:"at"`
	Started int64             `json:"started"`
	Output  worker.OutputMemo `json:"output"`
	Session sessionMemo       `json:"session"`
}

// resumeAgain is the pause after a failed read of what is stored.
const resumeAgain = 500 * time.Millisecond

// converse follows a process that outlives this one to its end, or leaves it.
func (t *Tasks) converse(ctx context.Context, s *session, k *keeping, again bool, p place) worker.Outcome {
	a := s.attempt
	// Requests of the process are completed even if the worker leaves meanwhile.
	doing, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	s.ctx = doing
	leaving := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if errors.Is(cause, worker.ErrLeft) {
			close(leaving)
			return
		}
		k.tell(toShim{Stop: &stopOrder{Code: codeOf(cause), Words: cause.Error(), Grace: a.Grace(cause)}})
		stop(cause)
	})
	defer unhook()
	a.OnHold(func(until time.Time) { k.tell(toShim{Hold: &holdOrder{monotonicOf(until), a.HoldGrace()}}) })
	defer a.OnHold(nil)
	for again {
		err := a.Resume(context.WithoutCancel(ctx), k.memo.Output)
		if err == nil {
			break
		}
		select {
		case <-leaving:
			return worker.Outcome{Left: true}
		case <-time.After(resumeAgain):
		}
	}
	if s.process = k; !again {
		s.greet()
	}
	s.watch()
	ended := k.listen(s, leaving)
	s.close()
	if !ended {
		s.out.Leave()
		k.mark(k.memo)
		return worker.Outcome{Left: true}
	}
	r := k.result()
	if cause := causeOf(r.Code); cause != nil {
		a.Stop(cause) // whichever party asked for it
	}
	if k.note.Boot == bootID() && r.Ended > 0 {
		s.ended = timeOf(r.Ended)
	}
	if r.Unread > 0 {
		s.out.Line(output.System, fmt.Sprintf("%d messages to the process were dropped: it did not read its standard input", r.Unread))
	}
	a.OnReported(func() { k.remove(); p.leave() })
	return t.keep(ctx, a, p, s.outcome(&r.Result))
}

// listen handles the output of the process until it ends. It returns false if the worker leaves it
// instead.
func (k *keeping) listen(s *session, leaving <-chan struct{}) bool {
	more, over := k.hear()
	read := &ringReader{ring: k.ring, at: k.memo.At}
	last, marked := time.Now(), read.at
	ended := false
	for {
		select {
		case <-leaving:
			k.memo = k.now(s, read.at)
			return false
		default:
		}
		f, err := read.next()
		if err == nil {
			s.out.Reading(read.at, time.Duration(monotonic()-f.said))
			s.take(f, read.at)
			if read.at-marked > k.note.Ring/16 || time.Since(last) > markEvery {
				k.markLater(s, k.now(s, read.at))
				last, marked = time.Now(), read.at
			}
			continue
		}
		if ended {
			k.memo = k.now(s, read.at)
			return true
		}
		var soon <-chan time.Time
		if read.at > marked {
			soon = time.After(markEvery)
		}
		select {
		case <-leaving:
		case <-more:
		case <-over:
			ended = true // all of its output can be read now
		case <-soon:
			k.markLater(s, k.now(s, read.at))
			last, marked = time.Now(), read.at
		}
	}
}

// markEvery is how often it is recorded how much of the output is stored, while there is any.
const markEvery = time.Second

// hear returns channels that tell when there is more to read, and when there will be no more.
func (k *keeping) hear() (more <-chan struct{}, over <-chan struct{}) {
	some, none := make(chan struct{}, 1), make(chan struct{})
	if k.conn == nil {
		close(none)
		return some, none
	}
	go func() {
		defer close(none)
		for {
			var m fromShim
			if k.says.Decode(&m) != nil || m.Ended {
				return
			}
			select {
			case some <- struct{}{}:
			default:
			}
		}
	}()
	return some, none
}

// take handles the content of one frame, which ends at a place.
func (s *session) take(f frame, end int64) {
	switch f.kind {
	case frameStdout:
		s.lines(child.Stdout, f, end)
	case frameStderr:
		s.lines(child.Stderr, f, end)
	case frameWithheld:
		s.Withheld(string(f.body))
	case frameReplaced:
		s.replaced()
	case frameDropped:
		s.out.Line(output.System, string(f.body))
	case frameMessage:
		if m, err := parseMessage(f.body); err == nil {
			s.Message(m)
		}
	case frameRefused:
		if m, err := parseMessage(f.body); err == nil {
			s.refuse(m)
		}
	}
}

// lines handles the lines of a frame. The place of each is where it ends.
func (s *session) lines(stream child.Stream, f frame, end int64) {
	for rest, more := f.body, true; more; {
		var text []byte
		text, rest, more = bytes.Cut(rest, []byte{'\n'})
		at := end
		if more {
			at -= int64(len(rest)) + 1
		}
		s.out.ReadingTo(at)
		s.Line(stream, ipc.Line{Text: text, Partial: f.partial})
	}
}

// now returns what must be remembered about everything read so far.
func (k *keeping) now(s *session, at int64) keepMemo {
	return keepMemo{At: at, Started: k.memo.Started, Output: s.out.Memo(), Session: s.memo()}
}

// markLater records a memo once everything before it is stored.
func (k *keeping) markLater(s *session, m keepMemo) {
	k.mu.Lock()
	busy := k.marking
	k.marking = true
	k.mu.Unlock()
	if busy {
		return
	}
	s.out.Then(func(err error) {
		if err == nil {
			k.mark(m)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.marking = false
	})
}

// mark records that everything before a memo's place is stored, and frees that room in the ring.
func (k *keeping) mark(m keepMemo) {
	text, err := json.Marshal(m)
	if err == nil {
		err = files.Write(k.path(toldFile), text)
	}
	if err == nil {
		k.tell(toShim{Told: m.At})
	}
}

// result returns how the process ended. If its shim could not write that down, the shim was killed,
// and the rest of the process with it.
func (k *keeping) result() (r shimResult) {
	text, err := os.ReadFile(k.path(resultFile))
	if err == nil && json.Unmarshal(text, &r) == nil {
		return r
	}
	r = shimResult{Result: child.Result{Class: value.Killed, Message: "the process that kept it beside the worker was killed, and it as well; ask who did it, or whether memory ran out"}}
	k.kill()
	return r
}
