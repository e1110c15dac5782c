package pubsub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/natstest"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
)

func TestLateAnswerCompletesNoOtherPublish(t *testing.T) {
	t.Parallel()
	url := newServer(t)
	v := natstest.NewValve()
	s := openLog(t, natstest.Connect(t, url, nats.SetCustomDialer(v)), 500*time.Millisecond, streams.Layout{})
	t.Cleanup(s.close)
	look := openLog(t, natstest.Connect(t, url), Timeout, streams.Layout{})
	t.Cleanup(look.close)

	first, second := natstest.NewTask(), natstest.NewTask()
	v.Hold()
	if _, err := s.append(within(t), natstest.NewFact(first, natstest.Note("answered too late")), 0); !errors.Is(err, events.ErrUnknown) {
		t.Fatalf("Append without an answer: %v, want ErrUnknown", err)
	}
	ended := make(chan uint64, 1)
	go func() {
		seq, err := s.append(within(t), natstest.NewFact(second, natstest.Note("answered")), 0) // in the slot of the first
		if err != nil {
			t.Errorf("the second Append: %v", err)
		}
		ended <- seq
	}()
	testkit.Eventually(t, "the second fact is stored", func() bool {
		last, err := look.Last(within(t))
		return err == nil && last == 2
	})
	v.Release() // both answers arrive, the first one first
	if seq := <-ended; seq != 2 {
		t.Errorf("the second Append returned sequence %d, want 2", seq)
	}
	if n := len(s.pub.all); n != 1 {
		t.Errorf("two publishes, one after the other, took %d slots", n)
	}
}

func TestCloseEndsWhatWaits(t *testing.T) {
	t.Parallel()
	for _, layout := range []streams.Layout{{}, {SyncAlways: true}} {
		v := natstest.NewValve()
		s := openLog(t, natstest.Connect(t, newServer(t), nats.SetCustomDialer(v)), Timeout, layout)
		v.Hold()
		const writers = 20
		ended := make(chan error, writers)
		for range writers {
			go func() {
				_, err := s.append(context.Background(), natstest.NewFact(natstest.NewTask(), natstest.Note("x")), 0)
				ended <- err
			}()
		}
		testkit.Eventually(t, "all writers wait", func() bool {
			s.pub.mu.Lock()
			defer s.pub.mu.Unlock()
			return len(s.pub.all) >= writers
		})
		s.close()
		for range writers {
			select {
			case err := <-ended:
				if !errors.Is(err, errClosed) && !errors.Is(err, events.ErrUnknown) {
					t.Errorf("a write that was under way at Close: %v", err)
				}
			case <-within(t).Done():
				t.Fatal("a writer waits for ever after Close")
			}
		}
		if _, err := s.append(context.Background(), natstest.NewFact(natstest.NewTask(), natstest.Note("x")), 0); !errors.Is(err, errClosed) || errors.Is(err, events.ErrUnknown) {
			t.Errorf("Append after Close: %v, want that nothing was recorded", err)
		}
		v.Release()
	}
}

func TestParseAck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		status     string
		seq        uint64
		err        error
	}{
		{"plain", `{"stream":"MR_LOG","seq":42}`, "", 42, nil},
		{"with spaces", `{"stream":"MR_LOG", "seq":42}`, "", 42, nil},
		{"duplicate", `{"stream":"MR_LOG","seq":7,"duplicate": true}`, "", 7, request.ErrDuplicate},
		{"of a domain", `{"stream":"MR_LOG","domain":"hub","seq":7}`, "", 7, nil},
		{"of a batch", `{"stream":"MR_LOG","seq":9,"batch":"x","count":3}`, "", 9, nil},
		{"wrong sequence", `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},"stream":"MR_LOG","seq":0}`, "", 0, events.ErrConflict},
		{"no responders", "", "503", 0, events.ErrNoStream},
		{"empty", "", "", 0, events.ErrUnknown},
		{"cut off", `{"stream":"MR_LOG","se`, "", 0, events.ErrUnknown},
		{"no number", `{"stream":"MR_LOG","seq":}`, "", 0, events.ErrUnknown},
	} {
		m := &nats.Msg{Data: []byte(c.body), Header: nats.Header{}}
		if c.status != "" {
			m.Header.Set("Status", c.status)
		}
		if a := parseAck(m); a.seq != c.seq || !errors.Is(a.err, c.err) {
			t.Errorf("%s: %d, %v; want %d, %v", c.name, a.seq, a.err, c.seq, c.err)
		}
	}
}

// An answer reaches its own message, and no later one of the same slot: not when it comes twice,
// and not when its waiter has left.
func TestAnswersOfOneSlot(t *testing.T) {
	t.Parallel()
	stored := func(stream string, seq uint64) string { return fmt.Sprintf(`{"stream":%q,"seq":%d}`, stream, seq) }
	const refused = `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},"stream":"A","seq":0}`
	type said struct {
		use  int // the message that the answer is for, from 0
		body string
	}
	for _, c := range []struct {
		name string
		// says are the answers that arrive while each message waits.
		says [][]said
		want []uint64 // the sequence that each gets; 0 for an error
		kept bool     // all answers go to the subject of the first one
	}{
		{"one after the other", [][]said{{{0, stored("A", 5)}}, {{1, stored("A", 9)}}}, []uint64{5, 9}, true},
		{"twice", [][]said{{{0, stored("A", 5)}, {0, stored("A", 5)}}, {{0, stored("A", 5)}, {1, stored("A", 9)}}}, []uint64{5, 9}, true},
		{"twice, and later", [][]said{{{0, stored("A", 5)}}, {{1, stored("A", 9)}}, {{0, stored("A", 5)}, {1, stored("A", 9)}, {2, stored("A", 10)}}}, []uint64{5, 9, 10}, true},
		{"of another stream", [][]said{{{0, stored("A", 5)}}, {{1, stored("B", 2)}}, {{0, stored("A", 5)}, {1, stored("B", 2)}, {2, stored("A", 6)}}}, []uint64{5, 2, 6}, false},
		{"refused", [][]said{{{0, refused}}, {{0, refused}, {1, stored("A", 5)}}}, []uint64{0, 5}, false},
		{"refused after a success", [][]said{{{0, stored("A", 5)}}, {{1, refused}}, {{1, refused}, {2, stored("A", 6)}}}, []uint64{5, 0, 6}, false},
		{"a duplicate", [][]said{{{0, `{"stream":"A","seq":3,"duplicate":true}`}}, {{0, stored("A", 3)}, {1, stored("A", 5)}}}, []uint64{3, 5}, false},
		{"never, then late", [][]said{{}, {{0, stored("A", 4)}, {1, stored("A", 5)}}}, []uint64{0, 5}, false},
	} {
		p := &Publisher{prefix: "_INBOX.x."}
		var subjects []string
		for use, says := range c.says {
			mine, err := p.reserve("x")
			if err != nil {
				t.Fatal(err)
			}
			s := mine.slot
			subjects = append(subjects, mine.reply)
			for _, one := range says {
				p.receive(&nats.Msg{Subject: subjects[one.use], Data: []byte(one.body)})
			}
			ctx, cancel := context.WithCancel(t.Context())
			if len(s.done) == 0 {
				cancel()
			}
			if seq, err := p.wait(ctx, s); seq != c.want[use] || (err != nil) != (seq == 0 || errors.Is(err, request.ErrDuplicate)) {
				t.Errorf("%s: message %d got %d, %v; want %d", c.name, use, seq, err, c.want[use])
			}
			cancel()
			for _, subject := range subjects { // while the slot is free
				p.receive(&nats.Msg{Subject: subject, Data: []byte(stored("A", 99))})
			}
		}
		if len(p.all) != 1 {
			t.Errorf("%s: %d slots", c.name, len(p.all))
		}
		kept := true
		for _, subject := range subjects {
			kept = kept && subject == subjects[0]
		}
		if kept != c.kept {
			t.Errorf("%s: answers go to %q", c.name, subjects)
		}
	}
}

// A message that leaves after its waiter has gone, as one that waits for a batch can, must not take
// the answer of the slot's next message.
func TestLateMessageTakesNobodysAnswer(t *testing.T) {
	t.Parallel()
	p := &Publisher{nc: natstest.Connect(t, newServer(t)), prefix: "_INBOX.x."}
	first := must(p.reserve("x"))(t)
	p.release(first.slot)
	second := must(p.reserve("x"))(t)
	if second.slot != first.slot {
		t.Fatal("the second one has another slot")
	}
	late := nats.NewMsg("nowhere")
	if err := p.sendTo(first, late); err != nil {
		t.Fatal(err)
	}
	p.receive(&nats.Msg{Subject: late.Reply, Data: []byte(`{"stream":"A","seq":7}`)})
	if len(second.slot.done) > 0 {
		t.Errorf("the answer to %s went to who waits at %s", late.Reply, second.reply)
	}
}

// A stream that is deleted and made again counts from 1 again. Its answers look like earlier ones;
// the publisher waits for them only as long as it takes to be sure that no other follows.
func TestPublishToAStreamMadeAnew(t *testing.T) {
	t.Parallel()
	s := newLog(t, streams.Layout{})
	publish := func(n int) error {
		_, err := s.pub.Publish(within(t), &nats.Msg{Subject: names.OutputPrefix + fmt.Sprint(n), Data: []byte("x")})
		return err
	}
	const slots = 3
	for range 5 { // each slot has had answers
		var sending sync.WaitGroup
		for i := range slots {
			sending.Go(func() {
				if err := publish(i); err != nil {
					t.Error(err)
				}
			})
		}
		sending.Wait()
	}
	if err := s.JS.DeleteStream(within(t), names.OutputStream); err != nil {
		t.Fatal(err)
	}
	if err := streams.Ensure(within(t), request.NewFormer(s.NC, request.Patience{}), s.JS, streams.Layout{}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := publish(0); !errors.Is(err, events.ErrUnknown) {
		t.Errorf("the first message to a stream that was made anew: %v, want ErrUnknown", err)
	}
	if took := time.Since(began); took > Timeout/2 {
		t.Errorf("its outcome was unknown after %v", took)
	}
	for i := range 3 * slots {
		if err := publish(i); err != nil {
			t.Errorf("message %d after it: %v", i+1, err)
		}
	}
}

// A wait ends with the connection on which it began, and not because the publisher hears late of the
// one on which it began.
func TestCuts(t *testing.T) {
	conn := uint64(1)
	c := cuts{conns: func() uint64 { return conn }}
	c.look() // no caller waits
	first := c.next()
	c.look()
	if first.Err() != nil || c.next() != first {
		t.Error("a wait ended while its connection was there")
	}
	conn = 2
	second := c.next()
	if first.Err() == nil {
		t.Error("a wait goes on that began on a lost connection")
	}
	c.look() // it hears of the second only now
	if second.Err() != nil {
		t.Error("a wait ended because the publisher heard late of its connection")
	}
	conn = 3
	c.look()
	if second.Err() == nil {
		t.Error("a wait goes on without another caller that asks")
	}
	last := c.next()
	c.end()
	if last.Err() == nil {
		t.Error("a wait goes on after the end")
	}
}
