package embed

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	signals "os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/names"
	"millrace/internal/testkit"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A stream that has met a full disk takes nothing until its server is restarted. The guard does
// that, within the process: connections come back, and everything acknowledged is there.
func TestGuardMendsAStreamThatMetAFullDisk(t *testing.T) {
	t.Parallel()
	for stream, subject := range map[string]string{
		names.LogStream:           "mr.task.01ARZ3NDEKTSV4RRFFQ69G5FAV",
		names.OutputStream:        "mr.tasklog.01ARZ3NDEKTSV4RRFFQ69G5FAV",
		"KV_" + names.NodesBucket: "$KV." + names.NodesBucket + ".n1",
	} {
		t.Run(stream, func(t *testing.T) {
			t.Parallel()
			if inOwnProcess(t) {
				return
			}
			srv := startServer(t, Config{})
			address := srv.URL()
			inside := must(srv.Connect(jet.Resilient(t.Name(), srv.cfg.Log)...))(t)
			t.Cleanup(inside.Close)
			s := openStore(t, connect(t, address))
			js := must(jetstream.New(inside))(t)
			makeRoom := fullDisk(t, 1<<20)
			stored := fillUntilMute(t, js, subject)
			if srv.wrong(t.Context()) == nil {
				t.Fatal("a stream takes no messages, and the server is said to be well")
			}
			ctx, end := context.WithCancel(context.Background())
			guarded := make(chan error, 1)
			before := srv.current()
			go func() { guarded <- srv.Guard(ctx) }()
			testkit.Eventually(t, "the trouble is told", func() bool { return errors.Is(srv.Trouble(), events.ErrMute) })
			makeRoom()
			testkit.Eventually(t, "the stream takes messages again", func() bool {
				_, err := publishWithin(js, subject, time.Second)
				return err == nil
			})
			testkit.Eventually(t, "nothing is wrong", func() bool { return srv.Trouble() == nil && srv.wrong(t.Context()) == nil })
			end()
			if err := <-guarded; err != nil {
				t.Errorf("the guard ends with %v", err)
			}
			if srv.current() == before {
				t.Error("the stream takes messages again by itself: then no guard is needed")
			}
			if srv.URL() != address {
				t.Errorf("the server listens at %s now, before at %s", srv.URL(), address)
			}
			testkit.Eventually(t, "the connection from outside is back", s.Connected)
			kept := must(js.Stream(within(t), stream))(t)
			if kept.CachedInfo().Config.MaxMsgsPerSubject == 1 {
				stored = nil // the last one has taken the place of all
			}
			for _, seq := range stored {
				if _, err := kept.GetMsg(within(t), seq); err != nil {
					t.Errorf("message %d was acknowledged: %v", seq, err)
				}
			}
		})
	}
}

// The guard does not restart a server while there is no room for it, and says why.
func TestGuardWaitsForRoom(t *testing.T) {
	t.Parallel()
	if inOwnProcess(t) {
		return
	}
	srv := startServer(t, Config{})
	nc := connect(t, srv.URL())
	openStore(t, nc)
	before := srv.current()
	fullDisk(t, 1<<20)
	fillUntilMute(t, must(jetstream.New(nc))(t), "mr.task.01ARZ3NDEKTSV4RRFFQ69G5FAV")
	ctx, end := context.WithCancel(context.Background())
	guarded := make(chan error, 1)
	go func() { guarded <- srv.Guard(ctx) }()
	testkit.Eventually(t, "the trouble is told", func() bool { return errors.Is(srv.Trouble(), events.ErrMute) })
	testkit.Eventually(t, "the guard has looked again", func() bool { return len(srv.look) == 0 && srv.Trouble() != nil })
	end()
	if err := <-guarded; err != nil {
		t.Error(err)
	}
	if srv.current() != before {
		t.Error("the server was started again without room")
	}
}

// A timer that fires when there is room for its message, but not for the mark that the timer is
// gone, locks up the NATS server: it neither says how its streams are nor ends. The guard ends the
// process then, for its manager to start another one.
func TestGuardEndsAServerThatHangs(t *testing.T) {
	t.Parallel()
	if inOwnProcess(t) {
		return
	}
	srv := must(Start(Config{Dir: t.TempDir()}))(t)
	t.Cleanup(srv.Stop)
	srv.patience = 500 * time.Millisecond
	js := must(jetstream.New(connect(t, srv.URL())))(t)
	must(js.CreateStream(within(t), jetstream.StreamConfig{Name: "T", Subjects: []string{"t.>"}, AllowMsgSchedules: true, AllowRollup: true}))(t)
	must(publishWithin(js, "t.ballast", time.Second))(t) // so that no other file is as large
	block := filepath.Join(storeDir(srv.cfg.Dir), "jetstream", "$G", "streams", "T", "msgs", "1.blk")
	size := func() int64 { return must(os.Stat(block))(t).Size() }
	set := func(name string) {
		at := time.Now().Add(time.Second).UTC().Truncate(time.Second).Add(time.Second).Format(time.RFC3339)
		must(js.PublishMsg(within(t), &nats.Msg{Subject: "t.timer." + name, Header: nats.Header{"Nats-Schedule": {"@at " + at}, "Nats-Schedule-Target": {"t.due." + name}}}))(t)
	}
	set("a")
	before := size()
	stream := must(js.Stream(within(t), "T"))(t)
	testkit.Eventually(t, "a timer has fired and is gone", func() bool {
		_, fired := stream.GetLastMsgForSubject(within(t), "t.due.a")
		_, there := stream.GetLastMsgForSubject(within(t), "t.timer.a")
		return fired == nil && errors.Is(there, jetstream.ErrMsgNotFound)
	})
	grown := size() - before
	set("b")
	makeRoom := fullDisk(t, size()+grown-10) // a mark takes 30 bytes
	testkit.Eventually(t, "the server hangs", func() bool { return errors.Is(srv.wrong(t.Context()), errHangs) })
	hangs = true
	makeRoom()
	guarded := make(chan error, 1)
	go func() { guarded <- srv.Guard(context.Background()) }()
	if err := <-guarded; !errors.Is(err, ErrNotBack) || !errors.Is(err, errHangs) {
		t.Errorf("the guard ends with %v", err)
	}
}

// The pause between restarts grows only while restarts do not help.
func TestPauseOfTheGuard(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rest, well, want time.Duration }{
		{guardRest, time.Second, guardRest},
		{8 * time.Second, 10 * time.Second, 8 * time.Second},
		{8 * time.Second, 17 * time.Second, guardRest},
		{guardMost, 100 * time.Second, guardMost},
		{guardMost, 3 * time.Minute, guardRest},
	} {
		if got := calmed(c.rest, c.well); got != c.want {
			t.Errorf("after a pause of %v and %v without trouble the next one is %v, want %v", c.rest, c.well, got, c.want)
		}
	}
}

// ownProcess marks the process that a test has for itself.
const ownProcess = "MILLRACE_TEST_OWN_PROCESS"

// inOwnProcess runs the test in a process of its own, for its effects hold for the whole process;
// in that process it returns false.
func inOwnProcess(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownProcess) != "" {
		return false
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v")
	cmd.Env = append(os.Environ(), ownProcess+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return true
}

// fullDisk makes the disk full for this process until makeRoom is called: no file grows beyond most
// bytes. To the writer that is the same, and it harms no other process of the machine.
func fullDisk(t *testing.T, most int64) (makeRoom func()) {
	t.Helper()
	signals.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(most), Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	makeRoom = func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(makeRoom)
	return makeRoom
}

// fillUntilMute writes until there are no more answers, and returns the sequences of the answered
// messages.
func fillUntilMute(t *testing.T, js jetstream.JetStream, subject string) (stored []uint64) {
	t.Helper()
	for range 64 {
		seq, err := publishWithin(js, subject, 2*time.Second)
		if err != nil {
			return stored
		}
		stored = append(stored, seq)
	}
	t.Fatal("the stream has taken all, though its next block cannot be written")
	return nil
}

func publishWithin(js jetstream.JetStream, subject string, d time.Duration) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	ack, err := js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: bytes.Repeat([]byte("x"), 1<<17)}, jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}
