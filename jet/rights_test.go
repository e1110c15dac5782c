package jet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/node"
	"millrace/task"
)

// strict is a server whose users have the rights of their roles.
type strict struct {
	t   *testing.T
	url string
}

// newStrict starts one with a server called "s", a client "c" and a worker "w" of the node "w". Less takes rights
// away from all of them.
func newStrict(t *testing.T, less ...string) *strict {
	t.Helper()
	users := []User{{Name: "s", Role: RoleServer}, {Name: "c", Role: RoleClient}, {Name: "w", Role: RoleWorker, Node: "w"}}
	block := must(AccountsConfig(Account{Name: "A", Users: users}))(t)
	for _, subject := range less {
		_, rest, _ := strings.Cut(block, `"c"`) // the server keeps it: it begins
		if !strings.Contains(rest, fmt.Sprintf("%q", subject)) {
			t.Fatalf("no client has the right %s", subject)
		}
		block = strings.ReplaceAll(block, fmt.Sprintf("%q", subject), `"nothing"`)
	}
	for _, u := range users {
		block = strings.ReplaceAll(block, "$"+u.PasswordVariable(), u.Name)
	}
	ns := must(newTestServer(fmt.Sprintf("listen: 127.0.0.1:-1\njetstream { store_dir: %q }\n%s", t.TempDir(), block), make(chan string, 1)))(t)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	return &strict{t, ns.ClientURL()}
}

func (s *strict) dial(user string, opts ...nats.Option) *nats.Conn {
	s.t.Helper()
	return connect(s.t, s.url, append([]nats.Option{nats.UserInfo(user, user), nats.CustomInboxPrefix(DefaultInbox(user))}, opts...)...)
}

// as opens a store as a user; whatever nobody waits for and is refused fails the test.
func (s *strict) as(user string) *Store {
	s.t.Helper()
	return openStore(s.t, s.dial(user, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		s.t.Errorf("%s: %v", user, err)
	})), Layout{})
}

// soon is far less than any call waits for an answer that does not come.
const soon = 2 * time.Second

// denied checks that a call has failed at once for want of a right.
func denied(t *testing.T, subject string, call func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(within(t), patience)
	defer cancel()
	start := time.Now()
	err := call(ctx)
	var d *Denied
	if !errors.As(err, &d) || d.Subject != subject {
		t.Errorf("got %v, want that the right to %s is missing", err, subject)
	} else if !strings.Contains(err.Error(), "permission to publish to "+subject+" is missing") {
		t.Errorf("got %q", err)
	}
	if took := time.Since(start); took > soon {
		t.Errorf("%s: it took %v to say so", subject, took)
	}
}

// Whoever lacks a right is told which, and does not wait for an answer that nobody gives.
func TestDenied(t *testing.T) {
	t.Parallel()
	srv := newStrict(t, chainPrefix+"*", queuePrefix+"*.*.*", apiGet+"*")
	srv.as("s")
	unawaited := make(chan string, 8)
	c := openStore(t, srv.dial("c", nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { unawaited <- deniedBy(err).Subject })), Layout{})
	id := newTask()
	fact := newFact(id, note("it is refused"))
	denied(t, chainPrefix+string(id), func(ctx context.Context) error { _, err := c.Append(ctx, fact, 0); return err })
	denied(t, apiGet+LogStream, func(ctx context.Context) error { _, err := c.Last(ctx); return err })
	birth := newFact(id, task.Submitted{Work: testWork("default")})
	denied(t, queuePrefix+"default.5."+string(id), func(ctx context.Context) error { _, err := c.Place(ctx, birth); return err })
	var told error
	denied(t, queuePrefix+"default.5."+string(id), func(ctx context.Context) error {
		c.PlaceAll(ctx, []*events.Fact{birth}, func(_ int, _ uint64, err error) { told = err })
		return told
	})
	// Calls of the client library end with the context of whoever makes them, who hears of it.
	denied(t, "$JS.API.STREAM.CREATE.MINE", func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer c.OnDenied(cancel)()
		_, err := c.js.CreateStream(ctx, jetstream.StreamConfig{Name: "MINE"})
		return errors.Join(err, context.Cause(ctx))
	})
	// Words that may be lost are nobody's trouble: only the owner of the connection hears of them.
	ctx, cancel := context.WithCancelCause(within(t))
	defer cancel(nil)
	defer c.OnDenied(cancel)()
	for _, subject := range []string{hintPrefix + "x.y", lanesPrefix + "x.y"} {
		_ = c.nc.Publish(subject, nil)
		select {
		case heard := <-unawaited:
			if heard != subject {
				t.Errorf("heard of %s, want %s", heard, subject)
			}
		case <-ctx.Done():
			t.Fatalf("%s: %v", subject, context.Cause(ctx))
		}
	}
}

// Who may not listen where the answers go hears that at once, before anything is asked.
func TestDeaf(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	srv.as("s")
	start := time.Now()
	_, err := Attach(within(t), connect(t, srv.url, nats.UserInfo("c", "c")))
	var d *Denied
	if !errors.As(err, &d) || !d.Listening || !strings.HasPrefix(d.Subject, "_INBOX.") || time.Since(start) > soon {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}

// Nobody hears what another is answered, but for those who share their inboxes.
func TestInboxesAreApart(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	srv.as("s")
	refused := make(chan error, 8)
	spy := srv.dial("w", nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	for _, subject := range []string{"_INBOX.>", DefaultInbox("c") + ".>", ">"} {
		if _, err := spy.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-refused:
			if d := deniedBy(err); d == nil || d.Subject != subject {
				t.Errorf("%s: %v", subject, err)
			}
		case <-within(t).Done():
			t.Errorf("a worker may listen to %s", subject)
		}
	}
}

func TestRights(t *testing.T) {
	t.Parallel()
	subjects := func(list []Right) (all []string) {
		for _, r := range list {
			if r.Why == "" {
				t.Errorf("%v: nobody says why", r.Subjects)
			}
			all = append(all, r.Subjects...)
		}
		return all
	}
	has := func(u User) (publish, subscribe []string) {
		r := must(u.Rights())(t)
		return subjects(r.Publish), subjects(r.Subscribe)
	}
	w, hears := has(User{Name: "crawler-7", Role: RoleWorker, Node: "crawler-7"})
	for _, own := range []string{"mr.node.crawler-7", "$KV.MR_NODES.crawler-7"} {
		if !slices.Contains(w, own) {
			t.Errorf("a worker may not publish to %s", own)
		}
	}
	for _, others := range []string{"mr.node.*", "$KV.MR_NODES.*", sweepSubject, "mr.files.>", "mr.api.>", "mr.admit", "mr.queue_state.*", ">", "mr.>", "$JS.API.>", "$KV.MR_JOBS.*"} {
		if slices.Contains(w, others) {
			t.Errorf("a worker may publish to %s", others)
		}
	}
	if !slices.Contains(hears, "_INBOX_crawler-7.>") || slices.Contains(hears, "_INBOX.>") {
		t.Errorf("a worker hears %v", hears)
	}
	if p, s := has(User{Name: "asks", Role: RoleAsks, Inbox: "_INBOX"}); !slices.Equal(p, []string{"mr.api.>"}) || !slices.Equal(s, []string{"_INBOX.>"}) {
		t.Errorf("asks has %v and %v", p, s)
	}
	for _, r := range Roles() {
		u := User{Name: "x", Role: r}
		if r == RoleWorker {
			u.Node = "x"
		}
		p, s := has(u)
		all := slices.Concat(p, s)
		slices.Sort(all)
		for i, subject := range p {
			if slices.Contains(p[:i], subject) {
				t.Errorf("%s is granted %s twice", r, subject)
			}
		}
		for _, subject := range all {
			if strings.ContainsAny(subject, "{} ") || subject == ">" {
				t.Errorf("%s has the right to %q", r, subject)
			}
		}
	}
	for _, wrong := range []User{{Name: "x", Role: "root"}, {Name: "a b", Role: RoleClient}, {Role: RoleClient}, {Name: "x", Role: RoleWorker}, {Name: "x", Role: RoleClient, Node: "n"}, {Name: "x", Role: RoleWorker, Node: node.ID("a.b")}} {
		if _, err := wrong.Rights(); err == nil {
			t.Errorf("%+v has rights", wrong)
		}
	}
}
