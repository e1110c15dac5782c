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
	"millrace/files"
	"millrace/files/tree"
	"millrace/internal/testkit"
	"millrace/jet/definitions"
	"millrace/jet/link"
	"millrace/jet/rig"
	"millrace/jet/roles"
	"millrace/jet/streams"
	"millrace/jet/wire"
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
	return newStrictRealm(t, roles.Realm{Name: "A"}, less...)
}

// strictRealm is the configuration of a realm with these users, or with those that it names.
func strictRealm(t testing.TB, r roles.Realm) string {
	t.Helper()
	if len(r.Users) == 0 {
		r.Users = strictUsers()
	}
	block := must(roles.RealmConfig(r))(t)
	for _, u := range r.Users {
		block = strings.ReplaceAll(block, "$"+u.PasswordVariable(), u.Name)
	}
	return block
}

func strictUsers() []roles.User {
	return []roles.User{{Name: "s", Role: roles.Server}, {Name: "c", Role: roles.Operator}, {Name: "w", Role: roles.Worker, Node: "w"}, {Name: "sub", Role: roles.Submitter}, {Name: "view", Role: roles.Viewer}}
}

// newStrictRealm starts one with these users in a realm that is so.
func newStrictRealm(t testing.TB, r roles.Realm, less ...string) *strict {
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
	return connect(s.t, s.url, append([]nats.Option{nats.UserInfo(user, user), nats.CustomInboxPrefix(roles.DefaultInbox(user))}, opts...)...)
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
	var d *link.Denied
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
	srv := newStrict(t, wire.ChainPrefix+"*", wire.QueuePrefix+"*.*.*", wire.APIGet+"*")
	srv.as("s")
	unawaited := make(chan string, 8)
	c := openStore(t, srv.dial("c", nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { unawaited <- link.DeniedBy(err).Subject })), streams.Layout{})
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

// A user that may not subscribe to its answers learns that at once, before it asks anything.
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

// No user receives another one's answers, unless they share their inbox prefix.
func TestInboxesAreApart(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	srv.as("s")
	refused := make(chan error, 8)
	spy := srv.dial("w", nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	for _, subject := range []string{"_INBOX.>", roles.DefaultInbox("c") + ".>", ">"} {
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

// Only servers write decisions that are made in one place; only operators and servers write
// operators' settings. The NATS server refuses the rest.
func TestWhoMayWrite(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	all := map[string]string{} // which users may publish there
	for who, subjects := range map[string][]string{
		"s": {
			wire.AdmitPrefix + "job.x", wire.TickPrefix + "x", wire.FirePrefix + "x", wire.DuePrefix + "x", wire.DuePrefix + "default.5.x", wire.FiredSubject, wire.CopiesSubject,
			wire.APIPurge + wire.LogStream, wire.APIErase + wire.LogStream, "$JS.API.STREAM.DELETE." + wire.LogStream, "$JS.API.STREAM.UPDATE." + wire.LogStream,
			wire.APIPurge + wire.OutputStream, wire.APIPurge + wire.DataStream, wire.APIPurge + wire.StateStream, wire.APIErase + wire.OutputStream, wire.APIPurge + wire.FilesStream,
			wire.BucketSubject + wire.DefsBucket + ".job.x",
		},
		"s c": {
			wire.DefPrefix + "job.x", wire.DefPrefix + "schedule.x", wire.CronPrefix + "x", wire.DefPrefix + "bundle.x", wire.StatePrefix + "x", wire.DeadPrefix + "7", wire.SweepSubject, wire.NodePrefix + "other", wire.PingPrefix + "w",
			wire.BucketSubject + wire.NodesBucket + ".other", wire.APIErase + wire.FilesStream,
		},
		"s w": {wire.OutputPrefix + "x", wire.DataPrefix + "x", wire.LivePrefix + "x", wire.CheckpointPrefix + "x", wire.RanPrefix + "x", wire.LeftPrefix + "x.1", wire.LogProbe},
		"s c w": {
			wire.ChainPrefix + "x", wire.QueuePrefix + "default.5.x", wire.HoldPrefix + "x", wire.TimerPrefix + "x", wire.KeyPrefix + "x", wire.BreakPrefix + "x", wire.SelectorPrefix + "x", wire.LaneWordPrefix + "q.5.1", wire.NodePrefix + "w",
			wire.ChunkPrefix + "x", wire.VersionPrefix + "x", wire.HintPrefix + "w",
		},
		// A server may publish to all of mr.>, and asks for nothing.
		"s sub":  {roles.TaskSubmit.For("sub"), roles.TaskCopy.For("sub"), roles.TaskGet.For("sub")},
		"s view": {roles.TaskList.For("view"), roles.NodeList.For("view"), roles.TaskGet.For("view")},
		"s c ":   {roles.TaskSubmit.For("c"), roles.NodeDrain.For("c"), roles.TaskList.For("c")},
		"s ":     {roles.NodeDrain.For("sub"), roles.TaskList.For("sub"), roles.TaskSubmit.For("view"), roles.TaskSubmit.For("w"), roles.TaskSubmit.For("ada"), roles.TaskCancel.For("sub")},
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

// A connection asks under the name of its NATS user.
func TestCallerOn(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	withPassword := srv.dial("w")
	inURL := connect(t, strings.Replace(srv.url, "nats://", "nats://w:w@", 1), nats.CustomInboxPrefix(roles.DefaultInbox("w")))
	for what, nc := range map[string]*nats.Conn{"password": withPassword, "address": inURL} {
		if got := roles.CallerOn(nc); got != "w" {
			t.Errorf("%s: asks as %q", what, got)
		}
	}
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"name":"grace.h","sub":"UABC"}`))
	named := &nats.Conn{Opts: nats.Options{User: "x", UserJWT: func() (string, error) { return "h." + claims + ".s", nil }}}
	if got := roles.CallerOn(named); got != "grace_h" {
		t.Errorf("a JWT asks as %q", got)
	}
	if got := roles.CallerOn(&nats.Conn{Opts: nats.Options{Nkey: "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"}}); got != "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4" {
		t.Errorf("an nkey asks as %q", got)
	}
	if got := roles.CallerOn(&nats.Conn{}); roles.ValidCaller(got) != nil {
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

	v := rig.Pushed(t, client, "one", "two")
	must(client.NameVersion(ctx, definitions.NamedVersion{Name: "app", Digest: v.Digest}))(t)
	must(client.NameHistory(ctx, "app"))(t)
	must(client.BundleNames(ctx))(t)

	own := offersOf(t, worker, "@w")
	prove(t, own)
	own.Close()
	if err := client.DropNode(ctx, "w"); err != nil {
		t.Error(err)
	}

	must(tree.Manifest(ctx, worker, v.Digest))(t)
	if _, err := worker.Get(ctx, files.DigestOf([]byte("none"))); !errors.Is(err, tree.ErrNoChunk) {
		t.Error(err)
	}
	left := task.Left{Task: newTask(), Epoch: 7, Digest: string(rig.Pushed(t, worker, "an artifact").Digest)}
	if err := worker.KeepArtifacts(ctx, left); err != nil {
		t.Error(err)
	}
	if all := must(client.Artifacts(ctx, left.Task))(t); len(all) != 1 {
		t.Errorf("%+v", all)
	}
	stream := must(server.JS.Stream(ctx, wire.FilesStream))(t)
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(wire.ProtectPrefix+"*")); err != nil {
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
