package request

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet/names"
)

// A NATS server does not answer a message that its sender may not publish: it drops the message,
// and reports an error to the connection. A caller that waits for an answer would wait until its
// timeout and then blame the timeout. So this code takes the error to the waiting caller: to writes
// and requests by their subject, to calls of the client library where they were made: guard does so
// while the store is opened, other users of the library through [Link.OnDenied].

// Denied means that a message was not taken, or that an answer cannot come, because the NATS server
// does not allow it to this user.
type Denied struct {
	// Subject is the subject that the user may not publish or subscribe to.
	Subject string
	// Listening is set if it may not subscribe.
	Listening bool
}

func (e *Denied) Error() string {
	if e.Listening {
		return fmt.Sprintf("permission to subscribe to %s is missing", e.Subject)
	}
	return fmt.Sprintf("permission to publish to %s is missing", e.Subject)
}

// Is makes each refusal an [events.ErrDenied].
func (e *Denied) Is(target error) bool { return target == events.ErrDenied }

// denials passes the server's refusals to the callers that wait for answers.
type denials struct {
	nc *nats.Conn

	mu   sync.Mutex
	pub  Publisher // guarded by mu
	next int       // guarded by mu
	// waiting are the callers that wait for an answer. Guarded by mu.
	waiting map[int]waiting
	// deaf is set if the user may not receive any answer, as of a connection. Guarded by mu.
	deaf   *Denied
	since  uint64 // guarded by mu; the number of reconnects at that time
	closed bool   // guarded by mu
}

type waiting struct {
	// subject is what was published; "" waits for any refusal.
	subject string
	give    func(error)
}

// WatchDenials begins to receive the server's refusals to a connection, before the connection's
// owner does. A refusal that a caller here waits for goes to that caller alone.
func WatchDenials(nc *nats.Conn) *denials {
	d := &denials{nc: nc, waiting: map[int]waiting{}}
	owner := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if !d.note(err) && owner != nil {
			owner(nc, sub, err)
		}
	})
	return d
}

// Of sets the publisher whose messages wait for acknowledgements.
func (d *denials) Of(pub Publisher) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pub = pub
}

// Close lets the owner of the connection receive all refusals again.
func (d *denials) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

var violation = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`Permissions Violation for (Publish|Subscription) to "([^"]*)"`)
})

// DeniedBy returns the refusal in a server's error; nil if it is another error.
func DeniedBy(err error) *Denied {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	m := violation().FindStringSubmatch(err.Error())
	if m == nil {
		return nil
	}
	return &Denied{Subject: m[2], Listening: m[1] == "Subscription"}
}

// note passes a refusal to the waiting callers, and reports whether there were any.
func (d *denials) note(err error) bool {
	denied := DeniedBy(err)
	if denied == nil {
		return false
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return false
	}
	all := false
	if inbox := d.nc.NewInbox(); denied.Listening && strings.HasPrefix(denied.Subject, inbox[:strings.LastIndexByte(inbox, '.')+1]) {
		d.deaf, d.since, all = denied, d.nc.Stats().Reconnects, true
	}
	var told []func(error)
	for _, w := range d.waiting {
		if all || !denied.Listening && (w.subject == denied.Subject || w.subject == "" && answered(denied.Subject)) {
			told = append(told, w.give)
		}
	}
	pub := d.pub
	d.mu.Unlock()
	for _, give := range told {
		give(denied)
	}
	subject := denied.Subject
	if all {
		subject = ""
	}
	return pub != nil && (all || !denied.Listening) && pub.Deny(subject, denied) || len(told) > 0
}

// answered tells whether callers wait for an answer to messages on a subject. They do not for
// messages that may be lost, or for cleaning up that the server also does by itself a little later.
func answered(subject string) bool {
	for _, prefix := range []string{names.HintPrefix, names.LanesPrefix, names.APIDrop, "$JS.ACK."} {
		if strings.HasPrefix(subject, prefix) {
			return false
		}
	}
	return true
}

// wait calls give once the server refuses a message on this subject, or any awaited message if
// subject is "". done ends that.
func (d *denials) wait(subject string, give func(error)) (done func()) {
	d.mu.Lock()
	deaf, since, n := d.deaf, d.since, d.next
	d.next++
	d.waiting[n] = waiting{subject, give}
	d.mu.Unlock()
	// With the next connection it may have other rights.
	if deaf != nil && since == d.nc.Stats().Reconnects {
		give(deaf)
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting, n)
	}
}

// Guard makes ctx end when the server refuses a message on this subject. done replaces the error of
// a failed call by the refusal, if that was the cause.
func (d *denials) Guard(ctx context.Context, subject string) (guarded context.Context, done func(error) error) {
	guarded, cancel := context.WithCancelCause(ctx)
	stop := d.wait(subject, cancel)
	return guarded, func(err error) error {
		stop()
		defer cancel(nil)
		if denied, ok := errors.AsType[*Denied](context.Cause(guarded)); ok && err != nil {
			return denied
		}
		return err
	}
}

// Request sends a request and waits for the answer. The error is a [*Denied] if this user may not
// make it.
func (l *Link) Request(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	ctx, done := l.Denials.Guard(ctx, subject)
	m, err := l.NC.RequestWithContext(ctx, subject, body)
	return m, done(err)
}

// OnDenied calls heard with a [*Denied] each time the server refuses something whose answer is
// awaited, until stop is called. The client library's own calls do not notice, and wait until their
// context ends.
func (l *Link) OnDenied(heard func(error)) (stop func()) { return l.Denials.wait("", heard) }
