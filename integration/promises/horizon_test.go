package promises

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/embed"
	jetnames "millrace/events/jet/names"
	"millrace/integration/harness"
	"millrace/internal/testkit"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// forgetful is a place whose log forgets what ended a second ago, with a NATS server of its own, and
// servers that are killed and started again.
type forgetful struct {
	*harness.Place
	c       *client.Client
	servers map[string]*harness.Process
	moved   map[uint64]bool // horizons that were seen
	waves   int
}

func newForgetful(t *testing.T) *forgetful {
	p := &forgetful{Place: harness.New(t, 2*time.Second), servers: map[string]*harness.Process{}, moved: map[uint64]bool{}}
	p.MayRepair("servers and workers are killed")
	p.Let("MILLRACE_KEEP_AGE", "1s")
	p.Let("MILLRACE_SWEEP", "100ms")
	return p
}

// serve starts a server with a read model of its own.
func (p *forgetful) serve(name string) {
	p.Helper()
	s := p.Start("server", "--data", name, "--http", "off")
	s.Until("server "+name+" serves", func() bool { return strings.Contains(s.Said.String(), "Millrace serves ") })
	p.servers[name] = s
}

// wave makes many messages that are soon to be forgotten: tasks that nobody runs, and that are
// cancelled.
func (p *forgetful) wave() {
	p.Helper()
	err := p.c.SubmitMany(p.Context(), birth.Submission{Spec: &job.Spec{Handler: "noop"}, Queue: "nobody"}, 700, nil)
	if err != nil {
		p.Fatal(err)
	}
	p.Until("what nobody runs is cancelled", func() bool { return p.Try("queue", "purge", "nobody", "--yes").Code == 0 })
	p.waves++
}

// horizon asks what the log keeps; false while no server answers.
func (p *forgetful) horizon() (h client.Horizon, ok bool) {
	r := p.Try("horizon", "-o", "json")
	if r.Code != 0 || json.Unmarshal([]byte(r.Out), &h) != nil {
		return h, false
	}
	if h.Step == "purged" {
		p.moved[h.Below] = true
	}
	return h, true
}

// passes waits until the horizon is above a sequence.
func (p *forgetful) passes(seq uint64) {
	p.Helper()
	said := ""
	if !harness.Poll(4*harness.Patience, func() bool { // a server that does not go first looks every 18 s
		h, ok := p.horizon()
		said = fmt.Sprintf("%+v", h)
		return ok && h.First > seq
	}) {
		p.Fatalf("the horizon does not pass %d: %s", seq, said)
	}
}

// ran returns how often the program of each task has begun, by task and epoch, as the programs
// themselves have written.
func (p *forgetful) ran() map[string]map[string]int {
	p.Helper()
	text, err := os.ReadFile(p.Path("ran"))
	if err != nil && !os.IsNotExist(err) {
		p.Fatal(err)
	}
	all := map[string]map[string]int{}
	for line := range strings.Lines(string(text)) {
		id, epoch, _ := strings.Cut(strings.TrimSpace(line), " ")
		if all[id] == nil {
			all[id] = map[string]int{}
		}
		all[id][epoch]++
	}
	return all
}

// writes is a program that says that it runs.
func (p *forgetful) writes() string {
	return "echo $MILLRACE_TASK $MILLRACE_EPOCH >> " + filepath.Join(p.Dir, "ran")
}

var horizons = flag.Int("horizons", 0, "how many horizons TestHorizons goes through; 0 for 2, or with -long 8")

// What has ended leaves the log again and again, while servers and, with -long, workers and the NATS
// server are killed. What lives goes on as if nothing had happened. The judge is what the tasks' own
// programs have written: each task has run, under one epoch, or under several if its worker was killed.
func TestHorizons(t *testing.T) {
	t.Parallel()
	p := newForgetful(t)
	nats := embed.Config{Dir: p.Path("nats"), Port: testkit.Port(t)}
	start := func() *embed.Server {
		s, err := embed.Start(nats)
		if err != nil {
			t.Fatal(err)
		}
		p.URL = s.URL()
		return s
	}
	store := start()
	defer func() { store.Stop() }()
	p.serve("one")
	p.serve("two")
	worker := p.Worker("w")
	p.c = p.Connect()
	waits := p.Submit(p.writes(), "--signal", "go")
	later := p.Submit(p.writes(), "--delay", testkit.Size("8s", "20s"))
	unique := p.Submit(p.writes(), "--signal", "go", "--unique", "only")
	want, kills := []task.ID{waits, later, unique}, 0
	for n := 0; len(p.moved) < cmp.Or(*horizons, testkit.Size(2, 8)); n++ {
		if n > testkit.Size(20, 1000) {
			t.Fatalf("after %d waves the log has %d horizons", n, len(p.moved))
		}
		for range 3 {
			want = append(want, p.Submit(p.writes()))
		}
		p.wave()
		h, _ := p.horizon()
		switch victim := rand.IntN(4); {
		case n == 0, victim == 0: // a server, in the middle of whatever it does
			name := []string{"one", "two"}[rand.IntN(2)]
			p.servers[name].Kill()
			p.serve(name)
		case *testkit.Long && victim == 1:
			worker.Kill()
			kills++
			worker = p.Worker("w")
		case *testkit.Long && victim == 2:
			store.Stop()
			store = start()
		}
		p.passes(h.First)
	}
	p.passes(0)
	taken := p.Try("run", "--shell", p.writes(), "--unique", "only")
	if taken.Code == 0 || !strings.Contains(taken.Errs, string(unique)) {
		t.Errorf("the key of a task that was carried is not taken: %+v", taken)
	}
	for _, id := range []task.ID{waits, unique} {
		p.Run("task", "approve", string(id))
	}
	p.Until("all have run", func() bool {
		ran := p.ran()
		for _, id := range want {
			if len(ran[string(id)]) == 0 {
				return false
			}
		}
		return true
	})
	extra := 0
	for id, epochs := range p.ran() {
		for epoch, times := range epochs {
			if times != 1 {
				t.Errorf("task %s has run %d times under epoch %s", id, times, epoch)
			}
		}
		extra += len(epochs) - 1
	}
	if most := kills * 16; extra > most {
		t.Errorf("%d attempts were made again, and a worker was killed %d times", extra, kills)
	}
	t.Logf("%d horizons, %d waves, %d tasks, %d kills of workers, %d attempts again", len(p.moved), p.waves, len(want), kills, extra)
}

// What lay before the horizon starts nothing when somebody puts it into the log again, and no task is
// made under an id from there.
func TestForgottenMessagesStartNothing(t *testing.T) {
	t.Parallel()
	p := newForgetful(t)
	p.NATS()
	p.serve("one")
	p.Worker("w")
	p.c = p.Connect()
	named := task.ID("01JNA0H0R1Z0N0000000000000")
	old := []task.ID{p.Submit(p.writes()), p.Submit(p.writes(), "--delay", "1s"), p.Submit(p.writes(), "--id", string(named)), p.Submit(p.writes()+"; exit 1", "--retries", "1")}
	for _, id := range old {
		p.Until("it has ended", func() bool { return p.State(p.c, id).State.Terminal() })
	}
	nc := p.Dial()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	log, err := js.Stream(p.Context(), jetnames.LogStream)
	if err != nil {
		t.Fatal(err)
	}
	var again []*nats.Msg
	info, err := log.Info(p.Context())
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
		m, err := log.GetMsg(p.Context(), seq)
		if err != nil {
			continue // a probe that was removed
		}
		for _, id := range old {
			if strings.HasSuffix(m.Subject, string(id)) {
				again = append(again, &nats.Msg{Subject: m.Subject, Header: nats.Header{"Mr-Type": m.Header["Mr-Type"]}, Data: m.Data})
			}
		}
	}
	before := p.ran()
	for !harness.Poll(2*time.Second, func() bool { h, ok := p.horizon(); return ok && h.First > info.State.LastSeq }) {
		p.wave()
	}
	for _, id := range old {
		if _, err := p.c.Task(p.Context(), id); err == nil {
			t.Errorf("task %s is still there", id)
		}
	}
	if r := p.Try("run", "--shell", p.writes(), "--id", string(named)); r.Code == 0 || !strings.Contains(r.Errs, "older than what the log keeps") {
		t.Errorf("a task under an old id: %+v", r)
	}
	for _, m := range again {
		if strings.HasPrefix(m.Subject, jetnames.ChainPrefix) && !strings.Contains(string(m.Data), `"task.submitted"`) {
			continue // with all of its chain it is a task that has ended
		}
		if _, err := js.PublishMsg(p.Context(), m); err != nil {
			t.Errorf("put %s again: %v", m.Subject, err)
		}
	}
	due := string(old[1])
	timer := &nats.Msg{Subject: jetnames.TimerPrefix + due, Header: nats.Header{
		"Mr-Type": {"task.due"}, "Nats-Schedule": {"@at " + time.Now().UTC().Format(time.RFC3339Nano)}, "Nats-Schedule-Target": {jetnames.DuePrefix + "default.5." + due},
	}, Data: fmt.Appendf(nil, `{"type":"task.due","v":1,"id":"01JNA0FACT0000000000000000","at":"2026-03-01T12:00:00Z","task":"%s","after":7,"route":"default.5","due":"2026-03-01T12:00:00Z"}`, due)}
	if _, err := js.PublishMsg(p.Context(), timer); err != nil {
		t.Errorf("set its timer again: %v", err)
	}
	// A task behind all that has run when the worker has dealt with it.
	last := p.Submit(p.writes())
	p.Await(p.c, last, task.Finished)
	p.Until("nothing waits", func() bool {
		r := p.Try("task", "ls", "--state", "pending", "--state", "running", "--names")
		return r.Code == 0 && r.Out == ""
	})
	for id, epochs := range p.ran() {
		if was := before[id]; id != string(last) && len(was) != len(epochs) {
			t.Errorf("task %s has run again: %v, before %v", id, epochs, was)
		}
	}
}
