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
	"millrace/events/jet/definitions"
	"millrace/events/jet/names"
	"millrace/events/jet/natstest"
	"millrace/events/jet/request"
	"millrace/events/jet/rights"
	"millrace/events/jet/streams"
	"millrace/internal/files"
	"millrace/internal/testkit"
	"millrace/task"
)

// strict is a server whose users have the rights of their roles.
type strict struct {
	t   testing.TB
	url string
}

// newStrict starts one with a server called "s", an operator "c", a worker "w" of the node "w", a
// submitter "sub" and a viewer "view". Less takes rights away from all but the server.
func newStrict(t testing.TB, less ...string) *strict {
	t.Helper()
	return newStrictRealm(t, rights.Realm{Name: "A"}, less...)
}

// strictRealm is the configuration of a realm with these users, or with those that it names.
func strictRealm(t testing.TB, r rights.Realm) string {
	t.Helper()
	if len(r.Users) == 0 {
		r.Users = strictUsers()
	}
	block := must(rights.RealmConfig(r))(t)
	for _, u := range r.Users {
		block = strings.ReplaceAll(block, "$"+u.PasswordVariable(), u.Name)
	}
	return block
}

func strictUsers() []rights.User {
	return []rights.User{{Name: "s", Role: rights.Server}, {Name: "c", Role: rights.Operator}, {Name: "w", Role: rights.Worker, Node: "w"}, {Name: "sub", Role: rights.Submitter}, {Name: "view", Role: rights.Viewer}}
}

// newStrictRealm starts one with these users in a realm that is so.
func newStrictRealm(t testing.TB, r rights.Realm, less ...string) *strict {
	t.Helper()
	block := "accounts {\n" + strictRealm(t, r) + "}\n"
	for _, subject := range less {
		_, rest, _ := strings.Cut(block, `"c"`) // the server keeps it: it begins
		if !strings.Contains(rest, fmt.Sprintf("%q", subject)) {
			t.Fatalf("no operator has the right %s", subject)
		}
		// In the permissions, where it is part of a list, and not where an account imports it.
		named := fmt.Sprintf(": %q", subject)
		block = strings.ReplaceAll(block, named, ": {}")
		block = strings.ReplaceAll(block, fmt.Sprintf("%q", subject), `"nothing"`)
		block = strings.ReplaceAll(block, ": {}", named)
	}
	ns := must(newTestServer(fmt.Sprintf("listen: 127.0.0.1:-1\njetstream { store_dir: %q }\n%s", t.TempDir(), block)))(t)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	return &strict{t, ns.ClientURL()}
}

func (s *strict) dial(user string, opts ...nats.Option) *nats.Conn {
	s.t.Helper()
	return connect(s.t, s.url, append([]nats.Option{nats.UserInfo(user, user), nats.CustomInboxPrefix(rights.DefaultInbox(user))}, opts...)...)
}

// as opens a store as a user; a refusal that no caller waits for fails the test.
func (s *strict) as(user string) *Store {
	s.t.Helper()
	return openStore(s.t, s.dial(user, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		s.t.Errorf("%s: %v", user, err)
	})), streams.Layout{})
}

// soon is far less than any call waits for an answer that does not come.
const soon = 2 * time.Second

// hands is how many goroutines such a call passes through, each of which may have to wait for a
// processor.
const hands = 20

// denied checks that a call has failed at once for want of a right.
func denied(t *testing.T, subject string, call func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(within(t), patience)
	defer cancel()
	starved := testkit.Starvation(t)
	start := time.Now()
	err := call(ctx)
	var d *request.Denied
	if !errors.As(err, &d) || d.Subject != subject {
		t.Errorf("got %v, want that the right to %s is missing", err, subject)
	} else if !strings.Contains(err.Error(), "permission to publish to "+subject+" is missing") {
		t.Errorf("got %q", err)
	}
	if took := time.Since(start); took > soon+hands*starved() {
		t.Errorf("%s: it took %v to say so", subject, took)
	}
}

// A user without a right is told which, and does not wait for an answer that will not come.
func TestDenied(t *testing.T) {
	t.Parallel()
	srv := newStrict(t, names.ChainPrefix+"*", names.QueuePrefix+"*.*.*", names.APIGet+"*")
	srv.as("s")
	unawaited := make(chan string, 8)
	c := openStore(t, srv.dial("c", nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { unawaited <- request.DeniedBy(err).Subject })), streams.Layout{})
	id := newTask()
	fact := newFact(id, note("it is refused"))
	denied(t, names.ChainPrefix+string(id), func(ctx context.Context) error { _, err := c.Append(ctx, fact, 0); return err })
	denied(t, names.APIGet+names.LogStream, func(ctx context.Context) error { _, err := c.Last(ctx); return err })
	birth := newFact(id, task.Submitted{Work: testWork("default")})
	denied(t, names.QueuePrefix+"default.5."+string(id), func(ctx context.Context) error { _, err := c.Place(ctx, birth); return err })
	var told error
	denied(t, names.QueuePrefix+"default.5."+string(id), func(ctx context.Context) error {
		c.PlaceAll(ctx, []*events.Fact{birth}, false, func(_ int, _ uint64, err error) { told = err })
		return told
	})
	// Calls of the client library end with the caller's context; OnDenied reports the refusal.
	denied(t, "$JS.API.STREAM.CREATE.MINE", func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer c.OnDenied(cancel)()
		_, err := c.JS.CreateStream(ctx, jetstream.StreamConfig{Name: "MINE"})
		return errors.Join(err, context.Cause(ctx))
	})
	// Messages that may be lost disturb no caller: only the owner of the connection learns of their
	// refusal.
	ctx, cancel := context.WithCancelCause(within(t))
	defer cancel(nil)
	defer c.OnDenied(cancel)()
	for _, subject := range []string{names.HintPrefix + "x.y", names.LanesPrefix + "x.y"} {
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

// A user that may not subscribe to its answers learns that at once, before it asks anything.
func TestDeaf(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	srv.as("s")
	start := time.Now()
	_, err := Attach(within(t), connect(t, srv.url, nats.UserInfo("c", "c")))
	var d *request.Denied
	if !errors.As(err, &d) || !d.Listening || !strings.HasPrefix(d.Subject, "_INBOX.") || time.Since(start) > soon {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}

// No user receives another one's answers, unless they share their inbox prefix.
func TestInboxesAreApart(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	srv.as("s")
	refused := make(chan error, 8)
	spy := srv.dial("w", nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	for _, subject := range []string{"_INBOX.>", rights.DefaultInbox("c") + ".>", ">"} {
		if _, err := spy.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-refused:
			if d := request.DeniedBy(err); d == nil || d.Subject != subject {
				t.Errorf("%s: %v", subject, err)
			}
		case <-within(t).Done():
			t.Errorf("a worker may listen to %s", subject)
		}
	}
}

// Only servers write decisions that are made in one place; only operators and servers write
// operators' settings. The NATS server refuses the rest.
func TestWhoMayWrite(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	all := map[string]string{} // which users may publish there
	for who, subjects := range map[string][]string{
		"s": {
			names.AdmitPrefix + "job.x", names.TickPrefix + "x", names.FirePrefix + "x", names.DuePrefix + "x", names.DuePrefix + "default.5.x", names.FiredSubject, names.CopiesSubject,
			names.APIPurge + names.LogStream, names.APIErase + names.LogStream, "$JS.API.STREAM.DELETE." + names.LogStream, "$JS.API.STREAM.UPDATE." + names.LogStream,
			names.APIPurge + names.OutputStream, names.APIPurge + names.DataStream, names.APIPurge + names.StateStream, names.APIErase + names.OutputStream, names.APIPurge + names.FilesStream,
			names.BucketSubject + names.DefsBucket + ".job.x",
		},
		"s c": {
			names.DefPrefix + "job.x", names.DefPrefix + "schedule.x", names.CronPrefix + "x", names.DefPrefix + "bundle.x", names.StatePrefix + "x", names.DeadPrefix + "7", names.SweepSubject, names.NodePrefix + "other", names.PingPrefix + "w",
			names.BucketSubject + names.NodesBucket + ".other", names.APIErase + names.FilesStream,
		},
		"s w": {names.OutputPrefix + "x", names.DataPrefix + "x", names.LivePrefix + "x", names.CheckpointPrefix + "x", names.RanPrefix + "x", names.LeftPrefix + "x.1", names.LogProbe},
		"s c w": {
			names.ChainPrefix + "x", names.QueuePrefix + "default.5.x", names.HoldPrefix + "x", names.TimerPrefix + "x", names.KeyPrefix + "x", names.BreakPrefix + "x", names.SelectorPrefix + "x", names.LaneWordPrefix + "q.5.1", names.NodePrefix + "w",
			names.ChunkPrefix + "x", names.VersionPrefix + "x", names.HintPrefix + "w",
		},
		// A server may publish to all of mr.>, and asks for nothing.
		"s sub":  {rights.TaskSubmit.For("sub"), rights.TaskCopy.For("sub"), rights.TaskGet.For("sub")},
		"s view": {rights.TaskList.For("view"), rights.NodeList.For("view"), rights.TaskGet.For("view")},
		"s c ":   {rights.TaskSubmit.For("c"), rights.NodeDrain.For("c"), rights.TaskList.For("c")},
		"s ":     {rights.NodeDrain.For("sub"), rights.TaskList.For("sub"), rights.TaskSubmit.For("view"), rights.TaskSubmit.For("w"), rights.TaskSubmit.For("ada"), rights.TaskCancel.For("sub")},
	} {
		for _, subject := range subjects {
			all[subject] = strings.TrimSpace(who)
		}
	}
	for _, user := range []string{"s", "c", "w", "sub", "view"} {
		refused := make(chan string, len(all)+1)
		nc := srv.dial(user, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- request.DeniedBy(err).Subject }))
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

// A connection asks under the name of its NATS user.
func TestCallerOn(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	withPassword := srv.dial("w")
	inURL := connect(t, strings.Replace(srv.url, "nats://", "nats://w:w@", 1), nats.CustomInboxPrefix(rights.DefaultInbox("w")))
	for what, nc := range map[string]*nats.Conn{"password": withPassword, "address": inURL} {
		if got := rights.CallerOn(nc); got != "w" {
			t.Errorf("%s: asks as %q", what, got)
		}
	}
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"name":"grace.h","sub":"UABC"}`))
	named := &nats.Conn{Opts: nats.Options{User: "x", UserJWT: func() (string, error) { return "h." + claims + ".s", nil }}}
	if got := rights.CallerOn(named); got != "grace_h" {
		t.Errorf("a JWT asks as %q", got)
	}
	if got := rights.CallerOn(&nats.Conn{Opts: nats.Options{Nkey: "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"}}); got != "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4" {
		t.Errorf("an nkey asks as %q", got)
	}
	if got := rights.CallerOn(&nats.Conn{}); rights.ValidCaller(got) != nil {
		t.Errorf("one without a name asks as %q", got)
	}
}

// Workers and clients use files with the rights of their roles.
func TestFilesWithFewRights(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	server := srv.as("s")
	ctx := within(t)
	client, worker := srv.as("c"), srv.as("w")

	v := natstest.Pushed(t, client, "one", "two")
	must(client.NameVersion(ctx, definitions.NamedVersion{Name: "app", Digest: v.Digest}))(t)
	must(client.NameHistory(ctx, "app"))(t)
	must(client.BundleNames(ctx))(t)

	own := offersOf(t, worker, "@w")
	prove(t, own)
	own.Close()
	if err := client.DropNode(ctx, "w", time.Now()); err != nil {
		t.Error(err)
	}

	must(files.Held(ctx, worker, v.Digest))(t)
	if _, err := worker.Get(ctx, files.DigestOf([]byte("none"))); !errors.Is(err, files.ErrNoChunk) {
		t.Error(err)
	}
	left := task.Left{Task: newTask(), Epoch: 7, Digest: string(natstest.Pushed(t, worker, "an artifact").Digest)}
	if err := worker.KeepArtifacts(ctx, left); err != nil {
		t.Error(err)
	}
	if all := must(client.Artifacts(ctx, left.Task))(t); len(all) != 1 {
		t.Errorf("%+v", all)
	}
	stream := must(server.JS.Stream(ctx, names.FilesStream))(t)
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(names.ProtectPrefix+"*")); err != nil {
		t.Fatal(err)
	}
	done, err := client.SweepFiles(ctx, time.Now().Add(time.Hour), false, func(context.Context) (map[files.Digest]bool, error) {
		return map[files.Digest]bool{v.Digest: true}, nil
	})
	if err != nil || len(done.Versions) != 1 || done.Chunks != 2 {
		t.Errorf("%+v: %v", done, err)
	}
	if err := client.ForgetArtifacts(ctx, left); err != nil {
		t.Error(err)
	}
	if err := client.RemoveBundle(ctx, "app", "ada"); err != nil {
		t.Error(err)
	}
}
