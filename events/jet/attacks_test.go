package jet

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/events/jet/rights"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
)

// headers are the headers by which a message can remove others, or itself, or seem to be another
// one.
func headers(victim string) []nats.Header {
	at := atTime(time.Now().Add(-time.Second))
	return []nats.Header{
		{jetstream.MsgRollup: {jetstream.MsgRollupAll}},
		{jetstream.MsgRollup: {jetstream.MsgRollupSubject}},
		{jetstream.MsgTTLHeader: {"1s"}},
		{jetstream.MsgTTLHeader: {"never"}},
		{scheduleHeader: {at}, scheduleTargetHeader: {victim}},
		{scheduleHeader: {at}, scheduleTargetHeader: {victim}, jetstream.MsgRollup: {jetstream.MsgRollupSubject}, "Nats-Schedule-TTL": {"1s"}},
		{scheduleHeader: {"@every 1s"}, scheduleTargetHeader: {victim}},
		{scheduleHeader: {at}, scheduleTargetHeader: {victim}, "Nats-Schedule-Source": {victim}},
		{"Nats-Scheduler": {victim}, "Nats-Schedule-Next": {"purge"}},
		{"Nats-Scheduler": {victim}},
		{names.FiredHeader: {"MR_TIMER 1 > > mr.due.default.5.x"}},
		{"Nats-Marker-Reason": {"Purge"}, "KV-Operation": {"PURGE"}},
		{"Nats-Incr": {"1"}},
	}
}

// logged is all that the log holds.
func logged(t *testing.T, s *Store) map[uint64]request.Message {
	t.Helper()
	info := must(s.log.Info(within(t)))(t)
	if info.State.NumDeleted > 0 || info.State.FirstSeq != 1 {
		t.Fatalf("the log begins at %d and lacks %d messages", info.State.FirstSeq, info.State.NumDeleted)
	}
	all := map[uint64]request.Message{}
	for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
		m, found, err := s.LeaderGetFrom(within(t), names.LogStream, map[string]any{"seq": seq})
		if err != nil || !found {
			t.Fatalf("message %d of the log: found %t, error %v", seq, found, err)
		}
		all[seq] = m
	}
	return all
}

// No message removes another one from the log, whatever its headers, if its sender has only the
// rights of a worker or a client. Timers are different: a user that may set one can remove all.
func TestNoMessageErases(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	s := srv.as("s")
	r := recorder(s)
	id := newTask()
	if _, err := r.Submit(within(t), id, submittedNoop); err != nil {
		t.Fatal(err)
	}
	later := newTask()
	if _, err := r.Submit(within(t), later, task.Submitted{Work: testWork("later"), Due: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(within(t), newFact(id, task.AttemptStarted{Attempt: 1, Node: "w", Session: "s", Offer: 1}), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Takes(within(t), 0); err != nil {
		t.Fatal(err)
	}
	before := logged(t, s)
	for _, user := range []string{"w", "c"} {
		js := must(jetstream.New(srv.dial(user, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))))(t)
		for _, subject := range []string{
			names.ChainPrefix + string(id), names.ChainPrefix + "X", names.QueuePrefix + "default.5." + string(id), names.HoldPrefix + string(id), names.HoldPrefix + "X", names.KeyPrefix + "X", names.BreakPrefix + "x",
			names.TimerPrefix + string(id), names.TimerPrefix + "X",
		} {
			for _, victim := range []string{names.ChainPrefix + string(id), names.QueuePrefix + "default.5." + string(id), names.DuePrefix + "default.5." + string(id), names.DuePrefix + "x", names.TimerPrefix + string(later), names.LogStream} {
				for _, h := range headers(victim) {
					// The server refuses most; only the log counts.
					_, _ = js.PublishMsg(within(t), &nats.Msg{Subject: subject, Header: h, Data: []byte(`{"type":"task.due"}`)}, jetstream.WithRetryAttempts(0))
				}
			}
		}
	}
	good := task.Queued{Work: testWork("later"), After: 1, Attempt: 1, Due: time.Now().Add(-time.Second)}
	if err := s.Arm(within(t), newFact(later, good)); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "what has fired is in the log, and what comes behind it", func() bool {
		_, found, err := s.LeaderGet(within(t), map[string]any{"last_by_subj": names.QueuePrefix + "later.5." + names.FiredToken + "." + string(later)})
		return err == nil && found
	})
	after := logged(t, s)
	for seq, was := range before {
		if is := after[seq]; is.Subject != was.Subject || !bytes.Equal(is.Data, was.Data) || !is.Time.Equal(was.Time) {
			t.Errorf("message %d was %s %s, and is %s %s", seq, was.Subject, was.Data, is.Subject, is.Data)
		}
	}
	if now := must(r.Load(within(t), id))(t); now.State != task.Running {
		t.Errorf("task %s is %s, want running", id, now.State)
	}
}

// A timer brings only a reference to a due task, whatever its target.
func TestForgedTimers(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	s := srv.as("s")
	r := recorder(s)
	js := must(jetstream.New(srv.dial("w")))(t)
	w := openStore(t, srv.dial("w", nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})), streams.Layout{})
	brought := names.QueuePrefix + "default.5." + names.FiredToken + "." + string(newTask())
	denied(t, brought, func(ctx context.Context) error {
		_, err := w.pub.Publish(ctx, &nats.Msg{Subject: brought, Data: []byte(`{"type":"task.due"}`)})
		return err
	})
	evil := testWork("default")
	evil.Spec = &job.Spec{Run: &job.Run{Shell: "echo pwned"}}

	held, due, fresh, elsewhere := newTask(), newTask(), newTask(), newTask()
	signalled := submittedNoop
	signalled.Holds = []string{task.HoldSignal}
	signalled.Spec = &job.Spec{Handler: "noop", Signal: &job.Signal{Name: "go"}}
	tomorrow := submittedNoop
	tomorrow.Due = time.Now().Add(24 * time.Hour)
	other := task.Submitted{Work: testWork("other"), Due: time.Now().Add(24 * time.Hour)}
	for id, e := range map[task.ID]task.Submitted{held: signalled, due: tomorrow, elsewhere: other} {
		if _, err := r.Submit(within(t), id, e); err != nil {
			t.Fatal(err)
		}
	}
	was := map[task.ID]task.Task{}
	for _, id := range []task.ID{held, due, elsewhere} {
		was[id] = must(r.Load(within(t), id))(t)
	}
	fire := func(id task.ID, e task.Event, target string) (refused error) {
		m := must(timer(names.TimerPrefix+string(newTask()), newFact(id, e), time.Now().Add(-time.Second), "x"))(t)
		m.Header.Set(scheduleTargetHeader, target)
		_, err := js.PublishMsg(within(t), m)
		return err
	}
	at := func(id task.ID) string { return names.DuePrefix + "default.5." + string(id) }
	for _, c := range []struct {
		id     task.ID
		e      task.Event
		target string
	}{
		{fresh, task.Submitted{Work: evil}, at(fresh)},
		{held, task.Submitted{Work: evil}, at(held)},
		{held, task.Queued{Work: evil, Attempt: 1, After: was[held].Turn}, at(held)},
		{held, task.Due{After: was[held].Turn, Route: "default.5"}, at(held)},
		{due, task.Queued{Work: evil, Attempt: 1}, at(due)},
		{due, task.Due{Route: "default.5", Due: time.Now()}, at(due)}, // a day early
		{elsewhere, task.Due{Route: "default.5"}, at(elsewhere)},      // it waits on another route
		{elsewhere, task.Due{Route: "other.5"}, at(elsewhere)},        // also on the wrong subject
		{due, task.AttemptFinished{Attempt: 1}, at(due)},
		{due, task.AttemptFinished{Attempt: 1}, names.DuePrefix + "nightly"},
		{due, task.Due{After: 99, Route: "default.5"}, names.TimerPrefix + string(fresh)}, // in place of another timer
	} {
		if err := fire(c.id, c.e, c.target); err != nil {
			t.Errorf("%T to %s: %v", c.e, c.target, err)
		}
	}
	for _, target := range []string{names.ChainPrefix + string(due), names.QueuePrefix + "default.5." + string(fresh), names.AdmitPrefix + "job.crawl", names.NodePrefix + "root", names.FirePrefix + "nightly", "$KV." + names.NodesBucket + ".x"} {
		if err := fire(due, task.AttemptFinished{}, target); err == nil {
			t.Errorf("a timer may fire at %s", target)
		}
	}
	good := newTask() // set without a submission, which would place the offer itself where it comes too late
	if err := s.Arm(within(t), newFact(good, task.Queued{Work: testWork("default"), After: 1, Attempt: 1, Due: time.Now()})); err != nil {
		t.Fatal(err)
	}
	o := offersOf(t, s, "default")
	for seen := task.ID(""); seen != good; {
		offer := next(t, o)
		seen = offer.Fact.Task
		if _, reference := offer.Fact.Event.(task.Due); offer.Err == nil && !reference {
			t.Errorf("a timer has brought %+v", offer.Fact.Event)
		}
		if now := events.FoldTask(seen, must(s.Task(within(t), seen))(t)); seen != good && now.Offered {
			t.Errorf("task %s is offered by %s", seen, offer.Raw)
		}
		if err := offer.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	for id, before := range was {
		if now := must(r.Load(within(t), id))(t); now.State != before.State || now.Turn != before.Turn || now.Offered || !reflect.DeepEqual(now.Spec, before.Spec) {
			t.Errorf("task %s was %s and is %s, offered %t", id, before.State, now.State, now.Offered)
		}
	}
	if now := events.FoldTask(fresh, must(s.Task(within(t), fresh))(t)); now.State != task.Unknown {
		t.Errorf("a timer has borne a task: it is %s", now.State)
	}
}

// No message of a worker touches the heartbeat of another node, whatever its headers, nor does an
// answer of the server to one of its requests.
func TestNoMessageTouchesAnothersHeartbeat(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	s := srv.as("s")
	for _, id := range []node.ID{"other", "w"} {
		if err := s.Beat(within(t), id, node.Heartbeat{Session: "s", At: time.Now()}, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	was := must(s.Pulse(within(t), "other"))(t)
	nc := srv.dial("w", nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	js := must(jetstream.New(nc))(t)
	const own, others = "$KV." + names.NodesBucket + ".w", "$KV." + names.NodesBucket + ".other"
	for _, h := range append(headers(others), nats.Header{"KV-Operation": {"PURGE"}, jetstream.MsgRollup: {jetstream.MsgRollupSubject}},
		nats.Header{"KV-Operation": {"DEL"}}, nats.Header{jetstream.MsgIDHeader: {"x"}}, nats.Header{jetstream.ExpectedLastSubjSeqSubjHeader: {others}, jetstream.ExpectedLastSubjSeqHeader: {"1"}},
		nats.Header{"Nats-Batch-Id": {"x"}, "Nats-Batch-Sequence": {"1"}, "Nats-Batch-Commit": {"1"}}) {
		_, _ = js.PublishMsg(within(t), &nats.Msg{Subject: own, Header: h, Data: []byte("{}")}, jetstream.WithRetryAttempts(0)) // refused or not
	}
	byReply(t, nc, others)
	if is := must(s.Pulse(within(t), "other"))(t); is.Beat.Session != "s" || !is.Stored.Equal(was.Stored) {
		t.Errorf("the heartbeat of the other node was %+v, and is %+v", was, is)
	}
	if err := s.Beat(within(t), "other", node.Heartbeat{Session: "s", At: time.Now()}, time.Minute); err != nil {
		t.Errorf("its next heartbeat: %v", err)
	}
}

// Only a server can write to the log in place of the consumer by which the log sources timers.
func TestNobodySpeaksForTimers(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	srv.as("s")
	for _, user := range []string{"w", "c"} {
		refused := make(chan error, 8)
		nc := srv.dial(user, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
		for _, subject := range []string{names.FiredSubject, names.DuePrefix + "default.5.x", names.DuePrefix + "x", "$JS.API.CONSUMER.RESET." + names.TimerStream + "." + names.FiredConsumer, names.APIDrop + names.TimerStream + "." + names.FiredConsumer, "$JS.API.STREAM.DELETE." + names.TimerStream, names.APIPurge + names.LogStream, names.APIErase + names.LogStream,
			// The log takes a consumer of this name for its own, whatever the stream.
			names.APIMake + names.OutputStream + "." + names.FiredConsumer, names.APIMake + names.DataStream + "." + names.FiredConsumer + "." + names.DataPrefix + "X", names.APIMake + names.LogStream + "." + names.FiredConsumer + "." + names.QueuePrefix + ">",
		} {
			if err := nc.Publish(subject, nil); err != nil {
				t.Fatal(err)
			}
			select {
			case <-refused:
			case <-within(t).Done():
				t.Errorf("%s may publish to %s", user, subject)
			}
		}
	}
}

// The subject of an offer names its route, whatever the lane.
func TestRouteAt(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]placement.Route{
		"mr.queue.default.5.T": "default.5", "mr.queue.default~0.8.T": "default.8", "mr.queue.default~16.5.T": "default.5",
		"mr.queue.@n1.5.T": "@n1.5", "mr.queue.@n1.8.T": "@n1.8", "mr.queue.~0123456789abcdef01234567.5.T": "~0123456789abcdef01234567.5",
		"mr.queue.~0123456789abcdef01234567~2.7.T": "~0123456789abcdef01234567.7",
		"mr.queue.default.T":                       "", "mr.queue.a.b.c.d": "", "mr.queue.default.x.T": "", "mr.queue.default.99.T": "",
	} {
		route, id, ok := names.RouteAt(subject)
		if ok != (want != "") || ok && (route != want || id != "T") {
			t.Errorf("%s: %s %s %t, want %q", subject, route, id, ok, want)
		}
	}
}

// A client that gets a message directly from a stream can have it sent to any subject of its
// account, whatever it may publish. Such a message in the log is never a fact, however it is read,
// and changes no definition, decision or node.
func TestCopiesAreNoFacts(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	s := srv.as("s")
	if err := s.Takes(within(t), 0); err != nil { // else its end meets the server in the middle of a beginning
		t.Fatal(err)
	}
	begin := must(s.End(within(t)))(t)
	nc := srv.dial("s")
	now := time.Now()
	forged := map[string]*events.Fact{
		names.TickPrefix + "nightly":  {Schedule: "nightly", Event: task.ScheduleQueued{Revision: 1, Tick: now, Trigger: "schedule"}},
		names.DefPrefix + "job.hello": {Def: "job.hello", Event: task.DefinitionRemoved{Revision: 1}},
		names.StatePrefix + "q":       {Queue: "q", Event: queue.Paused{Reason: "forged"}},
		names.NodePrefix + "other":    {Node: "other", Event: node.WasRetired{Reason: "forged"}},
	}
	for subject, f := range forged {
		f.ID, f.At, f.Type, f.Actor = events.NewID(now), now, events.TypeOf(f.Event), "scheduler"
		if r := request.Record(subject, 1, now, nil, 0, encoded(t, f)); r.Err != nil {
			t.Fatalf("%s: it would be no fact anyway: %v", subject, r.Err)
		}
		own := names.OutputPrefix + strings.ReplaceAll(subject, ".", "_")
		if err := nc.Publish(own, encoded(t, f)); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "it is stored", func() bool {
			_, found, err := s.LeaderGetFrom(within(t), names.OutputStream, map[string]any{"last_by_subj": own})
			return found && err == nil
		})
		if err := nc.PublishRequest(names.APIDirect+names.OutputStream, subject, []byte(`{"last_by_subj":"`+own+`"}`)); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "all copies are in the log", func() bool { return must(s.End(within(t)))(t) == begin+uint64(len(forged)) })
	none := func(what string, r events.Record) {
		t.Helper()
		if r.Err == nil || !strings.Contains(r.Err.Error(), "it is a copy") || r.Fact.Event != nil {
			t.Errorf("%s: %+v is a fact (%v)", what, r.Fact, r.Err)
		}
	}
	feed := must(s.Follow(within(t), begin+1))(t)
	defer feed.Close()
	for followed := 0; followed < len(forged); {
		for _, r := range must(feed.Next(within(t)))(t) {
			none("followed", r)
			followed++
		}
	}
	for subject := range forged {
		r, _, err := s.LeaderGet(within(t), map[string]any{"last_by_subj": subject})
		none("from the leader: "+subject, must(r, err)(t))
		for _, r := range must(s.ReadBatch(within(t), subject, 1))(t) {
			none("in a batch: "+subject, r)
		}
	}
	if last := must(s.LastDecisions(within(t), []string{"nightly"}))(t)["nightly"]; last.Seq <= begin || last.Fact.Event != nil {
		t.Errorf("the last decision is %+v", last)
	}
	if q := must(recorder(s).LoadQueue(within(t), "q"))(t); q.Paused != nil {
		t.Errorf("the queue is %+v", q)
	}
}

// byReply makes the NATS server send answers to a subject, in each of the ways that JetStream
// offers to a worker or an operator. When it returns, all have been sent.
func byReply(t *testing.T, nc *nats.Conn, target string) {
	t.Helper()
	js := must(jetstream.New(nc))(t)
	ask := func(subject, body string) {
		if err := nc.PublishRequest(subject, target, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	// The stored message is a valid request to JetStream.
	const own = names.OutputPrefix + "X"
	if err := nc.Publish(own, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := nc.Publish(own, nil); err != nil {
		t.Fatal(err)
	}
	must(js.PublishMsg(within(t), &nats.Msg{Subject: names.TimerPrefix + "X"}))(t)
	consumer := must(js.CreateConsumer(within(t), names.OutputStream, jetstream.ConsumerConfig{Name: "reply", FilterSubject: own, AckPolicy: jetstream.AckExplicitPolicy}))(t)
	for _, body := range []string{"+ACK", "+WPI", "-NAK"} {
		if batch := must(consumer.Fetch(1, jetstream.FetchMaxWait(100*time.Millisecond)))(t); batch != nil {
			for m := range batch.Messages() {
				ask(m.Reply(), body)
			}
		}
	}
	for _, request := range []string{`{"batch":9,"no_wait":true}`, `{"batch":9,"expires":100000000}`, `{"batch":1,"expires":1,"idle_heartbeat":1}`, "junk"} {
		ask(names.APINext+names.OutputStream+".reply", request)
	}
	ask(own, "{}")
	ask(names.TimerPrefix+"X", "{}")
	for _, stream := range []string{names.LogStream, names.OutputStream, names.TimerStream} {
		ask(names.APIInfo+stream, "")
		for _, request := range []string{`{"last_by_subj":"` + own + `"}`, `{"last_by_subj":"nothing"}`, `{"seq":1}`, `{"seq":99999}`, `{"batch":9,"seq":1}`, "junk", ""} {
			ask(names.APIGet+stream, request)
			ask(names.APIDirect+stream, request)
		}
	}
	ask(names.APIConsumer+names.OutputStream+".reply", "")
	push := `{"stream_name":"` + names.OutputStream + `","config":{"name":"push","filter_subject":"` + own + `","deliver_subject":"` + target + `","idle_heartbeat":100000000,"ack_policy":"none","deliver_policy":"all","replay_policy":"instant"}}`
	_, _ = nc.RequestWithContext(within(t), names.APIMake+names.OutputStream+".push."+own, []byte(push)) // where JetStream refuses it, well
	// Later messages go the same ways. Of several servers the one that is asked may not know of the
	// consumer yet.
	answered := func(subject, body string) {
		testkit.Eventually(t, subject+" is answered", func() bool {
			_, err := nc.RequestWithContext(within(t), subject, []byte(body))
			if err != nil && !errors.Is(err, nats.ErrNoResponders) {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	answered(names.APINext+names.OutputStream+".reply", `{"batch":1,"expires":100000000}`)
	for range 20 {
		for _, stream := range []string{names.OutputStream, names.TimerStream, names.LogStream} {
			for _, api := range []string{names.APIDirect, names.APIGet} {
				answered(api+stream, `{"last_by_subj":"`+own+`"}`)
			}
		}
	}
	for _, c := range []string{"reply", "push"} {
		if err := js.DeleteConsumer(within(t), names.OutputStream, c); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			t.Fatal(err)
		}
	}
}

// A client that asks JetStream for something names a subject for the answer. The NATS server sends
// it there with its own rights, even where that purges or deletes the log, or writes to it. The
// account of a role is a wall against that.
func TestNoAnswerErases(t *testing.T) {
	t.Parallel()
	targets := []string{names.APIPurge + names.LogStream, "$JS.API.STREAM.DELETE." + names.LogStream, "$JS.API.STREAM.DELETE." + names.TimerStream, names.APIErase + names.LogStream, names.AdmitPrefix + "job.x", names.DefPrefix + "job.x", "$KV." + names.DefsBucket + ".x", rights.TaskCancel.For("view"), names.FiredSubject}
	for _, user := range []string{"w", "c"} {
		srv := newStrict(t)
		s := srv.as("s")
		r := recorder(s)
		id := newTask()
		if _, err := r.Submit(within(t), id, submittedNoop); err != nil {
			t.Fatal(err)
		}
		if err := s.Takes(within(t), 0); err != nil {
			t.Fatal(err)
		}
		heard := make(chan *nats.Msg, 1000)
		must(s.NC.ChanSubscribe("mr.api.>", heard))(t)
		must(s.NC.ChanSubscribe("$KV."+names.DefsBucket+".>", heard))(t)
		before := logged(t, s)
		nc := srv.dial(user, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		for _, target := range targets {
			byReply(t, nc, target)
		}
		after := logged(t, s)
		for seq, was := range before {
			if is := after[seq]; is.Subject != was.Subject || !bytes.Equal(is.Data, was.Data) {
				t.Errorf("by %s: message %d was %s, and is %s", user, seq, was.Subject, is.Subject)
			}
		}
		for seq, m := range after {
			if _, was := before[seq]; !was {
				t.Errorf("by %s: message %d has got into the log, %s %s", user, seq, m.Subject, m.Data)
			}
		}
		must(s.JS.Stream(within(t), names.TimerStream))(t)
		for len(heard) > 0 {
			m := <-heard
			t.Errorf("by %s: a server hears %s %s", user, m.Subject, m.Data)
		}
	}
}

// The wall is needed: inside one account the same does erase the log.
func TestInOneAccountAnswersErase(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"w", "c"} {
		srv := newStrictRealm(t, rights.Realm{Name: "A", OneAccount: true})
		s := srv.as("s")
		if err := s.Takes(within(t), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := recorder(s).Submit(within(t), newTask(), submittedNoop); err != nil {
			t.Fatal(err)
		}
		byReply(t, srv.dial(user, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})), names.APIPurge+names.LogStream)
		testkit.Eventually(t, "the log is empty", func() bool { return must(s.log.Info(within(t)))(t).State.Msgs == 0 })
	}
}

// A message without body and headers, which a worker may publish, ends the answers to the request
// that gets it across the wall. Readers of the log and workers go on all the same.
func TestBareMessages(t *testing.T) {
	t.Parallel()
	const bare = 20
	srv := newStrict(t)
	srv.as("s")
	w := srv.as("w")
	r := recorder(w)
	o := offersOf(t, w, "default")
	nc := srv.dial("w")
	for range bare {
		for range 10 {
			if err := nc.Publish(names.HoldPrefix+"X", []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		for _, subject := range []string{names.HoldPrefix + "X", names.QueuePrefix + "default.5.X"} {
			if _, err := nc.RequestWithContext(within(t), subject, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	id := newTask()
	if _, err := r.Submit(within(t), id, submittedNoop); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for seen := task.ID(""); seen != id; {
		offer := next(t, o)
		seen = offer.Fact.Task
		if err := offer.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("the offer behind them came after %v", time.Since(began).Round(time.Millisecond))
	c := srv.as("c")
	end := must(c.End(within(t)))(t)
	began = time.Now()
	feed := must(c.Follow(within(t), 1))(t)
	defer feed.Close()
	var waits, others []time.Duration
	for want, last := uint64(1), time.Now(); want <= end; last = time.Now() {
		for _, r := range must(feed.Next(within(t)))(t) {
			if r.Seq != want {
				t.Fatalf("after message %d comes %d", want-1, r.Seq)
			}
			want++
		}
		if waits = append(waits, time.Since(last)); len(waits)%4 == 0 {
			opened := time.Now()
			other := must(c.Follow(within(t), end))(t)
			must(other.Next(within(t)))(t)
			other.Close()
			others = append(others, time.Since(opened))
		}
	}
	t.Logf("%d messages were read in %v", end, time.Since(began).Round(time.Millisecond))
	slices.Sort(waits)
	slices.Sort(others)
	if len(waits) < bare || len(others) == 0 {
		t.Fatalf("%d messages were read after %d waits", end, len(waits))
	}
	wait, other := waits[len(waits)*3/4], others[len(others)-1]
	t.Logf("three quarters of the %d waits were up to %v, and all feeds beside them open up to %v", len(waits), wait, other)
	// The end of a request that is not heard is missed at the next heartbeat, after 1 s. Else the feed
	// opens again at once, which takes about as long as opening another one.
	if wait-2*other > time.Second/2 {
		t.Errorf("a quarter of the waits took more than %v, where each other feed was open after %v", wait, other)
	}
}
