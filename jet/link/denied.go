package link

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"millrace/jet/wire"

	"github.com/nats-io/nats.go"
)

// A NATS server does not answer a message that its sender may not publish: it drops it,
// and says so beside, to the connection. Whoever waits for an answer would wait until its time is
// over and then blame the time. So here the word is brought to who waits: writes and requests by their
// subject, calls of the client library where they were made: those of
// opening the store by guard, the others by who uses it, see [Link.OnDenied].

// Denied is why a message was not taken, or an answer cannot come: the NATS server does not let
// this user.
type Denied struct {
	// Subject is what the user may not publish to, or subscribe to.
	Subject string
	// Listening is whether it may not subscribe.
	Listening bool
}

func (e *Denied) Error() string {
	if e.Listening {
		return fmt.Sprintf("permission to subscribe to %s is missing", e.Subject)
	}
	return fmt.Sprintf("permission to publish to %s is missing", e.Subject)
}

// denials are what the server has refused to a connection, for those who wait.
type denials struct {
	nc *nats.Conn

	mu   sync.Mutex
	pub  Publisher // guarded by mu
	next int       // guarded by mu
	// waiting are those who wait for an answer. Guarded by mu.
	waiting map[int]waiting
	// deaf is set if the user may not hear any answer at all, as of a connection. Guarded by mu.
	deaf   *Denied
	since  uint64 // guarded by mu; how often the connection had been made anew then
	closed bool   // guarded by mu
}

type waiting struct {
	// subject is what was published; "" for those who wait for whatever is refused next.
	subject string
	give    func(error)
}

// WatchDenials begins to note what the server refuses to a connection, before its owner hears of it.
// What somebody here waits for is told to them alone.
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

// Of tells whose messages wait for acknowledgements.
func (d *denials) Of(pub Publisher) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pub = pub
}

// Close lets the owner of the connection hear everything again.
func (d *denials) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

var violation = regexp.MustCompile(`Permissions Violation for (Publish|Subscription) to "([^"]*)"`)

// DeniedBy reads the server's word; nil if it is another one.
func DeniedBy(err error) *Denied {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	m := violation.FindStringSubmatch(err.Error())
	if m == nil {
		return nil
	}
	return &Denied{Subject: m[2], Listening: m[1] == "Subscription"}
}

// note tells those who wait, and reports whether anybody did.
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

// answered tells whether somebody waits for an answer to what is published to a subject. Words
// that may be lost, and tidying up that the server does by itself a little later, go without.
func answered(subject string) bool {
	for _, prefix := range []string{wire.HintPrefix, wire.LanesPrefix, wire.APIDrop, "$JS.ACK."} {
		if strings.HasPrefix(subject, prefix) {
			return false
		}
	}
	return true
}

// wait has give called once the server refuses to take what is published to a subject, or what anybody
// waits for if that is "". Done ends it.
func (d *denials) wait(subject string, give func(error)) (done func()) {
	d.mu.Lock()
	deaf, since, n := d.deaf, d.since, d.next
	d.next++
	d.waiting[n] = waiting{subject, give}
	d.mu.Unlock()
	if deaf != nil && since == d.nc.Stats().Reconnects { // with the next one it may have other rights
		give(deaf)
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting, n)
	}
}

// Guard makes ctx end when the server refuses to take what is published to a subject. Done says
// whether that is why a call under it has failed.
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

// Request is a request of which the answer is waited for. The error is a [*Denied] if this user may not make it.
func (l *Link) Request(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	ctx, done := l.Denials.Guard(ctx, subject)
	m, err := l.NC.RequestWithContext(ctx, subject, body)
	return m, done(err)
}

// OnDenied calls heard with a [*Denied] each time the server refuses something of which an answer is waited for,
// until stop is called. Calls of the client library do not hear of it and wait until their context ends.
func (l *Link) OnDenied(heard func(error)) (stop func()) { return l.Denials.wait("", heard) }
