package jet

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/jet/link"
	"millrace/jet/wire"
	"millrace/node"
	"millrace/task"
)

// strict is a server whose users have the rights of their roles.
type strict struct {
	t   testing.TB
	url string
}

// newStrict starts one with a server called "s", an operator "c", a worker "w" of the node "w", a submitter "sub" and a viewer
// "view". Less takes rights away from all but the server.
func newStrict(t testing.TB, less ...string) *strict {
	t.Helper()
	return newStrictRealm(t, Realm{Name: "A"}, less...)
}

// strictRealm is the configuration of a realm with these users.
func strictRealm(t testing.TB, r Realm) string {
	t.Helper()
	r.Users = []User{{Name: "s", Role: RoleServer}, {Name: "c", Role: RoleOperator}, {Name: "w", Role: RoleWorker, Node: "w"}, {Name: "sub", Role: RoleSubmitter}, {Name: "view", Role: RoleViewer}}
	block := must(RealmConfig(r))(t)
	for _, u := range r.Users {
		block = strings.ReplaceAll(block, "$"+u.PasswordVariable(), u.Name)
	}
	return block
}

// newStrictRealm starts one with these users in a realm that is so.
func newStrictRealm(t testing.TB, r Realm, less ...string) *strict {
	t.Helper()
	block := "accounts {\n" + strictRealm(t, r) + "}\n"
	for _, subject := range less {
		_, rest, _ := strings.Cut(block, `"c"`) // the server keeps it: it begins
		if !strings.Contains(rest, fmt.Sprintf("%q", subject)) {
			t.Fatalf("no operator has the right %s", subject)
		}
		// In the permissions, where it is one of a list, and not where an account imports it.
		named := fmt.Sprintf(": %q", subject)
		block = strings.ReplaceAll(block, named, ": {}")
		block = strings.ReplaceAll(block, fmt.Sprintf("%q", subject), `"nothing"`)
		block = strings.ReplaceAll(block, ": {}", named)
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
	var d *link.Denied
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
	srv := newStrict(t, wire.ChainPrefix+"*", wire.QueuePrefix+"*.*.*", wire.APIGet+"*")
	srv.as("s")
	unawaited := make(chan string, 8)
	c := openStore(t, srv.dial("c", nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { unawaited <- link.DeniedBy(err).Subject })), Layout{})
	id := newTask()
	fact := newFact(id, note("it is refused"))
	denied(t, wire.ChainPrefix+string(id), func(ctx context.Context) error { _, err := c.Append(ctx, fact, 0); return err })
	denied(t, wire.APIGet+wire.LogStream, func(ctx context.Context) error { _, err := c.Last(ctx); return err })
	birth := newFact(id, task.Submitted{Work: testWork("default")})
	denied(t, wire.QueuePrefix+"default.5."+string(id), func(ctx context.Context) error { _, err := c.Place(ctx, birth); return err })
	var told error
	denied(t, wire.QueuePrefix+"default.5."+string(id), func(ctx context.Context) error {
		c.PlaceAll(ctx, []*events.Fact{birth}, false, func(_ int, _ uint64, err error) { told = err })
		return told
	})
	// Calls of the client library end with the context of whoever makes them, who hears of it.
	denied(t, "$JS.API.STREAM.CREATE.MINE", func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer c.OnDenied(cancel)()
		_, err := c.JS.CreateStream(ctx, jetstream.StreamConfig{Name: "MINE"})
		return errors.Join(err, context.Cause(ctx))
	})
	// Words that may be lost are nobody's trouble: only the owner of the connection hears of them.
	ctx, cancel := context.WithCancelCause(within(t))
	defer cancel(nil)
	defer c.OnDenied(cancel)()
	for _, subject := range []string{wire.HintPrefix + "x.y", wire.LanesPrefix + "x.y"} {
		_ = c.NC.Publish(subject, nil)
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
	var d *link.Denied
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
			if d := link.DeniedBy(err); d == nil || d.Subject != subject {
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
	for _, others := range []string{"mr.node.*", "$KV.MR_NODES.*", sweepSubject, "mr.files.>", "mr.api.>", "mr.admit.>", "mr.queue_state.*", ">", "mr.>", "$JS.API.>", "$KV.MR_DEFS.*", "mr.job.*", "mr.schedule.*", "mr.bundle.*", "mr.copies"} {
		if slices.Contains(w, others) {
			t.Errorf("a worker may publish to %s", others)
		}
	}
	if !slices.Contains(hears, "_INBOX_crawler-7.>") || slices.Contains(hears, "_INBOX.>") {
		t.Errorf("a worker hears %v", hears)
	}
	want := []string{"mr.api.sue.task.submit", "mr.api.sue.task.bulk", "mr.api.sue.task.copy", "mr.api.sue.schedule.run", "mr.api.sue.task.get", "mr.api.sue.server.health"}
	if p, s := has(User{Name: "sue", Role: RoleSubmitter, Inbox: "_INBOX"}); !slices.Equal(p, want) || !slices.Equal(s, []string{"_INBOX.>"}) {
		t.Errorf("a submitter has %v and %v", p, s)
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
	for _, wrong := range []User{{Name: "x", Role: "root"}, {Name: "a b", Role: RoleOperator}, {Role: RoleOperator}, {Name: "scheduler", Role: RoleViewer}, {Name: "server", Role: RoleOperator}, {Name: "x", Role: RoleWorker}, {Name: "x", Role: RoleOperator, Node: "n"}, {Name: "x", Role: RoleWorker, Node: node.ID("a.b")}} {
		if _, err := wrong.Rights(); err == nil {
			t.Errorf("%+v has rights", wrong)
		}
	}
}

// What is decided in one place only servers write, and what operators say only they and servers. It is the NATS
// server that refuses.
func TestWhoMayWrite(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	all := map[string]string{} // who may publish there
	for who, subjects := range map[string][]string{
		"s": {
			wire.AdmitPrefix + "job.x", wire.TickPrefix + "x", wire.FirePrefix + "x", wire.DuePrefix + "x", wire.DuePrefix + "default.5.x", firedSubject, wire.CopiesSubject,
			wire.APIPurge + wire.LogStream, wire.APIErase + wire.LogStream, "$JS.API.STREAM.DELETE." + wire.LogStream, "$JS.API.STREAM.UPDATE." + wire.LogStream,
			wire.APIPurge + wire.OutputStream, wire.APIPurge + wire.DataStream, wire.APIPurge + wire.StateStream, wire.APIErase + wire.OutputStream, wire.APIPurge + wire.FilesStream,
			wire.BucketSubject + wire.DefsBucket + ".job.x",
		},
		"s c": {
			wire.DefPrefix + "job.x", wire.DefPrefix + "schedule.x", wire.CronPrefix + "x", wire.DefPrefix + "bundle.x", wire.StatePrefix + "x", wire.DeadPrefix + "7", sweepSubject, wire.NodePrefix + "other", wire.PingPrefix + "w",
			wire.BucketSubject + wire.NodesBucket + ".other", wire.APIErase + wire.FilesStream,
		},
		"s w": {wire.OutputPrefix + "x", wire.DataPrefix + "x", wire.LivePrefix + "x", wire.CheckpointPrefix + "x", wire.RanPrefix + "x", leftPrefix + "x.1", wire.LogProbe},
		"s c w": {
			wire.ChainPrefix + "x", wire.QueuePrefix + "default.5.x", wire.HoldPrefix + "x", wire.TimerPrefix + "x", wire.KeyPrefix + "x", wire.BreakPrefix + "x", wire.SelectorPrefix + "x", wire.LaneWordPrefix + "q.5.1", wire.NodePrefix + "w",
			chunkPrefix + "x", versionPrefix + "x", wire.HintPrefix + "w",
		},
		// A server may publish to all of mr.>, and asks for nothing.
		"s sub":  {TaskSubmit.For("sub"), TaskCopy.For("sub"), TaskGet.For("sub")},
		"s view": {TaskList.For("view"), NodeList.For("view"), TaskGet.For("view")},
		"s c ":   {TaskSubmit.For("c"), NodeDrain.For("c"), TaskList.For("c")},
		"s ":     {NodeDrain.For("sub"), TaskList.For("sub"), TaskSubmit.For("view"), TaskSubmit.For("w"), TaskSubmit.For("ada"), TaskCancel.For("sub")},
	} {
		for _, subject := range subjects {
			all[subject] = strings.TrimSpace(who)
		}
	}
	for _, user := range []string{"s", "c", "w", "sub", "view"} {
		refused := make(chan string, len(all)+1)
		nc := srv.dial(user, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- link.DeniedBy(err).Subject }))
		for subject := range all {
			if strings.HasPrefix(subject, "$JS.API.") && slices.Contains(strings.Fields(all[subject]), user) {
				continue // it would be done
			}
			if err := nc.Publish(subject, nil); err != nil {
				t.Fatal(err)
			}
		}
		const last = "nobody.may"
		if err := nc.Publish(last, nil); err != nil {
			t.Fatal(err)
		}
		denied := map[string]bool{}
		for !denied[last] {
			select {
			case subject := <-refused:
				denied[subject] = true
			case <-within(t).Done():
				t.Fatal("the server does not say what it refuses")
			}
		}
		for subject, who := range all {
			if denied[subject] == slices.Contains(strings.Fields(who), user) {
				t.Errorf("%s: refused to %s: %t, and these may: %s", subject, user, denied[subject], who)
			}
		}
	}
}

// What the service can be asked for is for one of three, and each name that asks is one.
func TestVerbs(t *testing.T) {
	t.Parallel()
	all := Verbs(Reading, Submitting, Operating)
	for i, v := range all {
		if noun, verb, ok := strings.Cut(string(v), "."); !ok || noun == "" || verb == "" || strings.Contains(verb, ".") || slices.Contains(all[:i], v) || v.Access() == "" {
			t.Errorf("%q is no noun and verb, or is there twice", v)
		}
		if caller, err := CallerOf(v.For("ada")); caller != "ada" || err != nil {
			t.Errorf("%s asks %q, %v", v.For("ada"), caller, err)
		}
	}
	if Verb("task.sumbit").Access() != "" {
		t.Error("a verb that is not there is for something")
	}
	for subject, want := range map[string]string{
		"mr.api.task.submit": "does not say who asks", "mr.api.health": "does not say who asks", "mr.api.a.b.task.submit": "does not say who asks", "mr.task.a.b.c": "does not say who asks",
		"mr.api.-a.task.get": "want 1 to 64", "mr.api.a@b.task.get": "want 1 to 64", "mr.api.*.task.get": "want 1 to 64", "mr.api.scheduler.task.get": "no user has it", "mr.api.server.task.get": "no user has it", "mr.api.worker.task.get": "no user has it",
	} {
		if _, err := CallerOf(subject); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", subject, err)
		}
	}
	for name, want := range map[string]string{"ada": "ada", "ada@example.org": "ada_example_org", "-x": "_x", "": "", "scheduler": "", "é": "__", strings.Repeat("a", 70): strings.Repeat("a", 64)} {
		if got := callerNamed(name); got != want {
			t.Errorf("%q asks as %q, want %q", name, got, want)
		}
	}
	for reply, want := range map[string]bool{"_INBOX.x": true, "_INBOX_ada.x": true, "mine": true, "": false, "$JS.API.STREAM.PURGE.MR_LOG": false, "mr.admit.job.x": false, "$SRV.PING": false} {
		if Answerable(reply) != want {
			t.Errorf("%s: answerable is %t", reply, !want)
		}
	}
}

// A connection asks under the name of its NATS user.
func TestCallerOn(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	withPassword := srv.dial("w")
	inURL := connect(t, strings.Replace(srv.url, "nats://", "nats://w:w@", 1), nats.CustomInboxPrefix(DefaultInbox("w")))
	for what, nc := range map[string]*nats.Conn{"password": withPassword, "address": inURL} {
		if got := callerOn(nc); got != "w" {
			t.Errorf("%s: asks as %q", what, got)
		}
	}
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"name":"grace.h","sub":"UABC"}`))
	named := &nats.Conn{Opts: nats.Options{User: "x", UserJWT: func() (string, error) { return "h." + claims + ".s", nil }}}
	if got := callerOn(named); got != "grace_h" {
		t.Errorf("a JWT asks as %q", got)
	}
	if got := callerOn(&nats.Conn{Opts: nats.Options{Nkey: "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"}}); got != "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4" {
		t.Errorf("an nkey asks as %q", got)
	}
	if got := callerOn(&nats.Conn{}); ValidCaller(got) != nil {
		t.Errorf("one without a name asks as %q", got)
	}
}
